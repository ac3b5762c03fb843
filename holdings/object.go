package holdings

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
	owner   any
	fh      []byte
	line    *Line // nil: nothing can be held
	changes delegation.Changes
	held    atomic.Pointer[holding] // changed under mu

	mu        sync.Mutex
	users     int
	dropping  int  // Drops that are not done
	asking    bool // an ACQUIRE is under way
	forgotten bool
	reluctance
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

// Trusted tells whether what is cached may be served now without an atomic
// operation. It takes no lock.
func (o *Object) Trusted() bool { return o.Trust() > 0 }

// Trust returns for how long from now on Trusted will say so if no answer comes any
// more. Who hands what is cached to somebody else's cache does so for no longer. It
// takes no lock.
func (o *Object) Trust() time.Duration {
	k := o.held.Load()
	if k == nil {
		return 0
	}
	return k.c.h.Trust(k.d, k.c.set.cfg.Now())
}

// Begin says that a call is about to be sent that changes the object. What is cached
// of it must not be served any more; until End, nothing that is read may be kept.
func (o *Object) Begin() { o.changes.Begin() }

// End says that the reply has come, or that the server will not make the change any
// more.
func (o *Object) End() { o.changes.End() }

// A Mark is taken when a call is sent whose reply may go into the cache.
type Mark struct {
	h    *delegation.Holder // nil: nothing is kept
	mark delegation.Mark
	held bool
}

// Held tells whether anything was held when the Mark was taken. What Keeps allows
// then may be cached as it is; else only under what was granted since, and if it is
// delegation.Unchanged.
func (m *Mark) Held() bool { return m.held }

// Mark begins to read something of the object (rule c).
func (o *Object) Mark() Mark {
	if o.line == nil {
		return Mark{}
	}
	c, d := o.line.present(), (*delegation.Delegation)(nil)
	k := o.held.Load()
	if k != nil {
		c, d = k.c, k.d
	}
	if c == nil {
		return Mark{}
	}
	mark, ok := c.h.Mark(d, &o.changes)
	if !ok {
		return Mark{}
	}
	return Mark{c.h, mark, k != nil}
}

// Keeps tells whether what has come in reply may be cached: what was held is held
// still, and nothing has been changed from here since. It is to be called under a lock
// that Drop and whoever calls Begin take to empty the cache: else what is put there
// might come behind that.
func (o *Object) Keeps(m Mark) bool { return m.h != nil && m.h.Keeps(m.mark) }

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
