package client

import (
	"context"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// Open begins a use of the object that lasts until Close: an open file, or attributes
// that are to be served at any time. Where it returns true, what is cached may be
// served from now on for as long as Trust says. Close must follow in any case.
//
// It may have to wait for the answer to an atomic operation. Where ctx ends before,
// it returns false.
func (o *Object) Open(ctx context.Context) bool {
	o.mu.Lock()
	o.users++
	k := o.held.Load()
	if k == nil {
		o.mu.Unlock()
		return false
	}
	if k.used { // counted once; this looks at what is behind that
		o.mu.Unlock()
		return k.check(ctx)
	}
	var op delegation.Op
	v := k.c.h.Open(k.d, &op, k.c.set.cfg.Now())
	k.used, k.opening = true, v == delegation.Post
	o.mu.Unlock()
	if v == delegation.Post {
		v = k.c.ask(ctx, op, k)
	}
	return k.served(v)
}

// Check asks whether one thing may be served from the cache, where it need not stay
// so. It waits as Open does.
func (o *Object) Check(ctx context.Context) bool {
	k := o.held.Load()
	return k != nil && k.check(ctx)
}

func (k *holding) check(ctx context.Context) bool {
	now := k.c.set.cfg.Now()
	if k.c.h.Trusts(k.d, now) { // without the Holder's lock
		return k.served(delegation.Serve)
	}
	var op delegation.Op
	v := k.c.h.Check(k.d, &op, now)
	if v == delegation.Post {
		v = k.c.ask(ctx, op, nil)
	}
	return k.served(v)
}

// served tells whether v lets the cache be used.
func (k *holding) served(v delegation.Verdict) bool {
	if v != delegation.Serve {
		return false
	}
	k.c.set.counts.served.Add(1)
	return true
}

// Close ends a use, of Open or Acquire.
func (o *Object) Close() {
	o.mu.Lock()
	o.users--
	k := o.held.Load()
	if k == nil {
		o.mu.Unlock()
		return
	}
	k.finishUnlock()
}

// opened says that the operation that begins a use has been answered.
func (k *holding) opened() {
	k.o.mu.Lock()
	k.opening = false
	k.finishUnlock()
}

// finishUnlock ends the use that the Holder counts where the object has no users any more,
// and the holding where it is forgotten. The caller holds k.o.mu, which settle gives
// back.
func (k *holding) finishUnlock() {
	o, h := k.o, k.c.h
	if o.users > 0 || k.opening {
		o.mu.Unlock()
		return
	}
	var op delegation.Op
	post := k.used && h.Close(k.d, &op, k.c.set.cfg.Now())
	k.used = false
	var fx delegation.Posts
	if o.forgotten && k.leave() {
		fx = h.Forget(k.d)
	}
	o.mu.Unlock()
	if post {
		k.c.forget(op)
	}
	k.c.do(fx)
}

// Forget ends all uses of an object that its owner has no more use for, and of which
// nothing is cached any more: nothing will be held of it again.
func (s *Set) Forget(o *Object) {
	o.mu.Lock()
	o.users, o.forgotten = 0, true
	if k := o.held.Load(); k != nil {
		k.finishUnlock()
		return
	}
	o.mu.Unlock()
}
