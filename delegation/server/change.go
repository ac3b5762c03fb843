package server

import (
	"context"
	"errors"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// ErrPutOff is the fate of a change that has waited for delegation.Patience, or would
// have to where too many do, or where clients may trust what another Keeper has granted
// (Config.Marker): its caller is to come again. What it waited for is kept for
// it meanwhile.
var ErrPutOff = errors.New("delegation: clients have not yet given back what they hold")

// A Change is an operation that changes objects. The zero value is ready for use, and so
// is one that is Done. It must not be copied.
type Change struct {
	c        delegation.Change
	woken    chan struct{} // has room for one
	deadline time.Time     // of Wait
}

// Blind lets ch be made, whatever it changes, where nobody holds anything: then ch has no
// need of Begin. Done must follow in any case.
func (k *Keeper) Blind(ch *Change) bool {
	switch {
	case k == nil:
		return true
	case k.fenced():
		return false
	case !k.g.Blind(&ch.c):
		return false
	case k.leases.any():
		k.g.Done(&ch.c) // a grant has just ended, and its lease is being released
		return false
	}
	return true
}

// Begin says that ch, which came from a peer, is about to change an object. p is nil
// where that is not to count: what the peer holds of the object itself is recalled then
// too. Begin recalls what is in the way, and is true where ch need not wait for it: the
// object may be changed then, and stands under no lease of the file system any more. Else
// Wait is to be called, and Begin again for all of the objects, until it is true for each.
func (k *Keeper) Begin(ch *Change, p *oncrpc.Peer, key []byte) bool {
	if ch.woken == nil {
		ch.woken = make(chan struct{}, 1)
		ch.c.Waker = ch
	}
	if k.fenced() {
		return false
	}
	ready, fx := k.g.Change(&ch.c, k.conn(p), key, k.now())
	k.do(fx)
	if ready {
		k.leases.free(key)
	}
	return ready
}

// wake tells whoever waits to look again.
func (ch *Change) wake() {
	select {
	case ch.woken <- struct{}{}:
	default:
	}
}

// Wait waits until nobody holds what ch is about to change. The error is ErrPutOff, or
// the cause of ctx; ch is Done then.
func (k *Keeper) Wait(ctx context.Context, ch *Change) error {
	defer k.waiting.Add(-1)
	if k.waiting.Add(1) > maxWaiting || k.fenced() {
		return k.putOff(ch)
	}
	if ch.deadline.IsZero() {
		ch.deadline = time.Now().Add(delegation.Patience)
	}
	timer := time.NewTimer(time.Until(ch.deadline))
	defer timer.Stop()
	for k.g.Waits(&ch.c) {
		select {
		case <-ch.woken:
		case <-timer.C:
			return k.putOff(ch)
		case <-ctx.Done():
			k.Done(ch)
			return context.Cause(ctx)
		}
	}
	return nil
}

func (k *Keeper) putOff(ch *Change) error {
	ch.deadline = time.Time{}
	k.g.Postpone(&ch.c, k.now())
	k.hurry()
	return ErrPutOff
}

// Done says that ch has been made, or given up. It may be called twice.
func (k *Keeper) Done(ch *Change) {
	if k != nil {
		ch.deadline = time.Time{}
		k.g.Done(&ch.c)
	}
}
