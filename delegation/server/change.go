package server

import (
	"context"
	"errors"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// ErrPutOff reports that a change must be tried again later: after a wait of
// delegation.Patience, at once if too many changes of its party wait, or while clients may
// trust grants of another Keeper (Config.Marker). The objects that the change
// waited for are not granted in the meantime.
var ErrPutOff = errors.New("delegation: clients have not yet returned their delegations")

// A Change is an operation that changes objects. The zero value is ready for
// use, and a Change is ready again after Done. A Change must not be copied.
type Change struct {
	c        delegation.Change
	woken    chan struct{} // has capacity 1
	deadline time.Time     // of Wait
}

// Blind reports whether ch may proceed without naming its objects, because no
// client holds a delegation. ch then needs no Begin. Done must follow in any
// case.
func (k *Keeper) Blind(ch *Change) bool {
	switch {
	case k == nil:
		return true
	case k.fenced():
		return false
	case !k.g.Blind(&ch.c):
		return false
	case k.leases.any():
		k.g.Done(&ch.c) // a grant has just ended, and its lease of the file system is being released
		return false
	}
	return true
}

// Begin announces that ch, made by p, will modify the object, and recalls
// conflicting delegations. It reports whether ch may proceed with this object;
// the object then has no lease of the file system any more. If not, call Wait,
// then Begin again for every object, until Begin returns true for each.
// Delegations held by p itself are kept unless their grant has a lease of the
// file system; pass nil to recall those too.
func (k *Keeper) Begin(ch *Change, p *oncrpc.Peer, key []byte) bool {
	if k == nil {
		return true
	}
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

// wake wakes the goroutine that waits for ch.
func (ch *Change) wake() {
	select {
	case ch.woken <- struct{}{}:
	default:
	}
}

// Wait waits until no conflicting delegation is left. ch is made by p, whose
// party has only a share of the changes that may wait. The error is ErrPutOff, or
// the cause of ctx's end; ch is then Done.
func (k *Keeper) Wait(ctx context.Context, ch *Change, p *oncrpc.Peer) error {
	if k == nil {
		return nil
	}
	party := partyOf(p)
	if k.fenced() || !k.waiting.Take(party) {
		return k.putOff(ch)
	}
	defer k.waiting.Give(party)
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

// partyOf returns the party of a caller, or the zero Name for nil.
func partyOf(p *oncrpc.Peer) fairshare.Name {
	if p == nil {
		return fairshare.Name{}
	}
	return fairshare.PartyOfIP(p.Addr.Addr())
}

func (k *Keeper) putOff(ch *Change) error {
	ch.deadline = time.Time{}
	k.g.Postpone(&ch.c, k.now())
	k.hurry()
	return ErrPutOff
}

// Done says that ch is complete or abandoned. Done may be called twice.
func (k *Keeper) Done(ch *Change) {
	if k != nil {
		ch.deadline = time.Time{}
		k.g.Done(&ch.c)
	}
}
