package client

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// An Object is the client's state for one object of the server. The zero value
// holds no delegation, and cannot hold any before Set.Init. The methods are
// safe for concurrent use. An Object must not be copied.
type Object struct {
	owner any
	fh    []byte
	line  *Attachment             // nil: no delegation can be held
	held  atomic.Pointer[holding] // changed under mu

	mu        sync.Mutex
	users     int
	dropping  int  // Drops not yet done
	asking    bool // an ACQUIRE is under way
	forgotten bool
	backoff
}

// Owner returns the owner given to Init.
func (o *Object) Owner() any { return o.owner }

// Types returns the types that may be served from the cache if Open or Check
// says so; 0 if no delegation is held.
func (o *Object) Types() delegation.Types {
	if k := o.held.Load(); k != nil {
		return k.d.Types
	}
	return 0
}

// Trust returns how long from now cached data may be served without an atomic
// operation even if no answer arrives any more; 0 if cached data may not be
// served now. A caller that hands cached data to another cache (such as the
// kernel's) must limit its validity to this time. Trust takes no lock.
func (o *Object) Trust() time.Duration {
	k := o.held.Load()
	if k == nil {
		return 0
	}
	return k.c.h.Trust(k.d, k.c.set.cfg.Now())
}

// end ends a holding, by a recall or otherwise. A Drop follows.
func (k *holding) end(recalled bool) {
	o := k.o
	now := k.c.set.cfg.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropping++
	if k.leave() && recalled {
		k.c.set.counts.recalled.Add(1)
		o.recalled(now, now-k.since)
	}
}

// leave takes k from its object, and reports whether the object had k. The
// caller holds o.mu.
func (k *holding) leave() bool {
	if !k.o.held.CompareAndSwap(k, nil) {
		return false
	}
	k.c.set.counts.held.Add(-1)
	return true
}

// dropped notes that one Drop is done.
func (o *Object) dropped() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropping--
}
