package client

import (
	"context"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// Open begins a use of the object that lasts until Close: an open file, or
// attributes that must be servable at any time. If Open returns true, cached
// data may be served from now on, for the time that Trust returns. The caller
// must call Close whatever Open returns.
//
// Open may wait for the response to an atomic operation. If ctx ends first, it
// returns false.
func (o *Object) Open(ctx context.Context) bool {
	o.mu.Lock()
	o.userCount++
	k := o.held.Load()
	if k == nil {
		o.mu.Unlock()
		return false
	}
	if k.countsUse { // the Holder counts one use for all; only validate
		o.mu.Unlock()
		return k.checkValid(ctx)
	}
	var op delegation.Op
	v := k.conn.holder.Open(k.delegation, &op, k.conn.set.cfg.Now())
	k.countsUse, k.opening = true, v == delegation.Post
	o.mu.Unlock()
	if v == delegation.Post {
		v = k.conn.postAndWait(ctx, op, k)
	}
	return k.countServed(v)
}

// Check reports whether cached data may be served once, now. It may wait for
// the response to an atomic operation, or until ctx ends.
func (o *Object) Check(ctx context.Context) bool {
	k := o.held.Load()
	return k != nil && k.checkValid(ctx)
}

func (k *heldDelegation) checkValid(ctx context.Context) bool {
	now := k.conn.set.cfg.Now()
	if k.conn.holder.Trusts(k.delegation, now) { // without the Holder's lock
		return k.countServed(delegation.Serve)
	}
	var op delegation.Op
	v := k.conn.holder.Check(k.delegation, &op, now)
	if v == delegation.Post {
		v = k.conn.postAndWait(ctx, op, nil)
	}
	return k.countServed(v)
}

// countServed reports whether v permits use of the cache, and counts the use if
// it does.
func (k *heldDelegation) countServed(v delegation.Verdict) bool {
	if v != delegation.Serve {
		return false
	}
	k.conn.set.counts.served.Add(1)
	return true
}

// Close ends a use begun by Open or Acquire.
func (o *Object) Close() {
	o.mu.Lock()
	o.userCount--
	k := o.held.Load()
	if k == nil {
		o.mu.Unlock()
		return
	}
	k.finishUseUnlock()
}

// finishOpening records that the operation that begins a use has completed.
func (k *heldDelegation) finishOpening() {
	k.object.mu.Lock()
	k.opening = false
	k.finishUseUnlock()
}

// finishUseUnlock ends the use that the Holder counts if the object has no uses
// left, and detaches k if the object is forgotten. The caller must hold
// k.object.mu, which finishUseUnlock unlocks.
func (k *heldDelegation) finishUseUnlock() {
	o, h := k.object, k.conn.holder
	if o.userCount > 0 || k.opening {
		o.mu.Unlock()
		return
	}
	var op delegation.Op
	post := k.countsUse && h.Close(k.delegation, &op, k.conn.set.cfg.Now())
	k.countsUse = false
	var fx delegation.Posts
	if o.forgotten && k.detachFromObject() {
		fx = h.Forget(k.delegation)
	}
	o.mu.Unlock()
	if post {
		k.conn.postUnawaited(op)
	}
	k.conn.applyPosts(fx)
}

// Forget ends all uses of an object that its owner no longer needs and for
// which nothing is cached. The Object never holds a delegation again.
func (s *Set) Forget(o *Object) {
	o.mu.Lock()
	o.userCount, o.forgotten = 0, true
	if k := o.held.Load(); k != nil {
		k.finishUseUnlock()
		return
	}
	o.mu.Unlock()
}
