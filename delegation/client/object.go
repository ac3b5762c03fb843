package client

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// An Object is what is held of one object of the server. The zero value holds
// nothing, and never will before Set.Init. Its methods may be called by several
// goroutines. It must not be copied.
type Object struct {
	owner any
	fh    []byte
	line  *Attachment             // nil: nothing can be held
	held  atomic.Pointer[holding] // changed under mu

	mu        sync.Mutex
	users     int
	dropping  int  // Drops that are not done
	asking    bool // an ACQUIRE is under way
	forgotten bool
	backoff
}

// Owner returns what Init was told.
func (o *Object) Owner() any { return o.owner }

// Types returns what may be served from the cache where Open or Check says so; 0
// where nothing is held.
func (o *Object) Types() delegation.Types {
	if k := o.held.Load(); k != nil {
		return k.d.Types
	}
	return 0
}

// Trust returns for how long from now on what is cached may be served without an atomic
// operation if no answer comes any more; 0 where that is not so now. Who hands what is
// cached to somebody else's cache does so for no longer. It takes no lock.
func (o *Object) Trust() time.Duration {
	k := o.held.Load()
	if k == nil {
		return 0
	}
	return k.c.h.Trust(k.d, k.c.set.cfg.Now())
}

// end is the end of a holding, by a recall or otherwise. A Drop follows.
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

// leave takes k from its object, and tells whether that had it. The caller holds
// o.mu.
func (k *holding) leave() bool {
	if !k.o.held.CompareAndSwap(k, nil) {
		return false
	}
	k.c.set.counts.held.Add(-1)
	return true
}

// dropped says that one Drop is done.
func (o *Object) dropped() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropping--
}
