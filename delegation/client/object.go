package client

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// An Object is the client's state for one object on the server. The zero value
// holds no delegation, and cannot hold one before Set.Init. Its methods are
// safe for concurrent use. An Object must not be copied.
type Object struct {
	owner      any
	handle     []byte
	attachment *Attachment                    // nil if no delegation can be held
	held       atomic.Pointer[heldDelegation] // changed under mu

	mu           sync.Mutex
	userCount    int
	pendingDrops int  // number of Drops not yet done
	acquiring    bool // an ACQUIRE is in flight
	forgotten    bool
	acquireBackoff
}

// Owner returns the owner given to Init.
func (o *Object) Owner() any { return o.owner }

// Types returns the types that may be served from the cache if Open or Check
// permits it; 0 if no delegation is held.
func (o *Object) Types() delegation.Types {
	if k := o.held.Load(); k != nil {
		return k.delegation.Types
	}
	return 0
}

// Trust returns the time for which cached data may be served without an atomic
// operation even if no further response arrives; 0 if cached data must not be
// served now. A caller that hands cached data to another cache (such as the
// kernel's) must limit its validity to this time. Trust takes no lock.
func (o *Object) Trust() time.Duration {
	k := o.held.Load()
	if k == nil {
		return 0
	}
	return k.conn.holder.Trust(k.delegation, k.conn.set.cfg.Now())
}

// endHolding detaches k from its object, after a recall or otherwise. A Drop
// must follow.
func (k *heldDelegation) endHolding(recalled bool) {
	o := k.object
	now := k.conn.set.cfg.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pendingDrops++
	if k.detachFromObject() && recalled {
		k.conn.set.counts.recalled.Add(1)
		o.pauseAfterRecall(now, now-k.since)
	}
}

// detachFromObject removes k from its object, and reports whether the object had k. The
// caller must hold the object's mu.
func (k *heldDelegation) detachFromObject() bool {
	if !k.object.held.CompareAndSwap(k, nil) {
		return false
	}
	k.conn.set.counts.held.Add(-1)
	return true
}

// finishDrop records that one Drop is done.
func (o *Object) finishDrop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pendingDrops--
}
