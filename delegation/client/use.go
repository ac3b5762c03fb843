package client

import (
	"context"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// Open begins a use of the object that lasts until Close: an open file, or
// attributes that must be servable at any time. If Open returns true, cached
// data may be served from now on, for as long as Trust says. Close must follow
// in any case.
//
// Open may wait for the answer to an atomic operation. If ctx ends first, Open
// returns false.
func (o *Object) Open(ctx context.Context) bool {
	o.mu.Lock()
	o.users++
	k := o.held.Load()
	if k == nil {
		o.mu.Unlock()
		return false
	}
	if k.used { // the Holder counts one use for all users; validate only
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

// Check reports whether cached data may be served once, now. Check waits as
// Open does.
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

// served reports whether v permits use of the cache, and counts the use.
func (k *holding) served(v delegation.Verdict) bool {
	if v != delegation.Serve {
		return false
	}
	k.c.set.counts.served.Add(1)
	return true
}

// Close ends a use begun by Open or Acquire.
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

// opened notes that the operation that begins a use was answered.
func (k *holding) opened() {
	k.o.mu.Lock()
	k.opening = false
	k.finishUnlock()
}

// finishUnlock ends the use that the Holder counts if the object has no users
// left, and ends the holding if the object is forgotten. The caller holds
// k.o.mu; finishUnlock releases it.
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

// Forget ends all uses of an object that its owner no longer needs and of which
// nothing is cached. The Object never holds a delegation again.
func (s *Set) Forget(o *Object) {
	o.mu.Lock()
	o.users, o.forgotten = 0, true
	if k := o.held.Load(); k != nil {
		k.finishUnlock()
		return
	}
	o.mu.Unlock()
}
