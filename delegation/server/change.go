package server

import (
	"context"
	"errors"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// ErrPutOff reports that a change must be retried later: after a wait of
// delegation.Patience, immediately if too many of its party's changes wait, or
// while clients may trust another Keeper's grants (Config.Marker). The objects
// that the change waited for are not granted in the meantime.
var ErrPutOff = errors.New("delegation: clients have not yet returned their delegations")

// A Change is an operation that changes objects. The zero value is ready for
// use, and a Change can be reused after Done. It must not be copied.
type Change struct {
	change   delegation.Change
	wakeup   chan struct{} // has capacity 1
	deadline time.Time     // when Wait stops waiting
}

// Blind reports whether ch may proceed without naming its objects, because no
// client holds a delegation. ch then needs no Begin. The caller must call Done
// in any case.
func (k *Keeper) Blind(ch *Change) bool {
	switch {
	case k == nil:
		return true
	case k.isFenced():
		return false
	case !k.grantor.Blind(&ch.change):
		return false
	case k.leases.hasLeases():
		k.grantor.Done(&ch.change) // a grant has just ended, and its file system lease is being released
		return false
	}
	return true
}

// Begin announces that ch, requested by p, will modify the object, and recalls
// conflicting delegations. It reports whether ch may proceed with this object;
// the object then has no file system lease any more. If not, call Wait, then
// Begin again for every object, until Begin returns true for each. Delegations
// held by p itself are kept unless their grant has a file system lease; pass
// nil to recall those too.
func (k *Keeper) Begin(ch *Change, p *oncrpc.Peer, key []byte) bool {
	if k == nil {
		return true
	}
	if ch.wakeup == nil {
		ch.wakeup = make(chan struct{}, 1)
		ch.change.Waker = ch
	}
	if k.isFenced() {
		return false
	}
	ready, fx := k.grantor.Change(&ch.change, k.connOf(p), key, k.currentTime())
	k.applyEffects(fx)
	if ready {
		k.leases.releaseForKey(key)
	}
	return ready
}

// wakeWaiter wakes the goroutine that waits for ch.
func (ch *Change) wakeWaiter() {
	select {
	case ch.wakeup <- struct{}{}:
	default:
	}
}

// Wait waits until no conflicting delegation is left. p requested ch, and its
// party has only a share of the changes that may wait. The error is ErrPutOff
// or ctx's cause; ch is then Done.
func (k *Keeper) Wait(ctx context.Context, ch *Change, p *oncrpc.Peer) error {
	if k == nil {
		return nil
	}
	party := partyOf(p)
	if k.isFenced() || !k.waitPlaces.Take(party) {
		return k.postponeChange(ch)
	}
	defer k.waitPlaces.Give(party)
	if ch.deadline.IsZero() {
		ch.deadline = time.Now().Add(delegation.Patience)
	}
	timer := time.NewTimer(time.Until(ch.deadline))
	defer timer.Stop()
	for k.grantor.Waits(&ch.change) {
		select {
		case <-ch.wakeup:
		case <-timer.C:
			return k.postponeChange(ch)
		case <-ctx.Done():
			k.Done(ch)
			return context.Cause(ctx)
		}
	}
	return nil
}

// partyOf returns a caller's party, or the zero Name for nil.
func partyOf(p *oncrpc.Peer) fairshare.Name {
	if p == nil {
		return fairshare.Name{}
	}
	return fairshare.PartyOfIP(p.Addr.Addr())
}

func (k *Keeper) postponeChange(ch *Change) error {
	ch.deadline = time.Time{}
	k.grantor.Postpone(&ch.change, k.currentTime())
	k.wakeRun()
	return ErrPutOff
}

// Done must be called when ch is complete or abandoned. It may be called twice.
func (k *Keeper) Done(ch *Change) {
	if k != nil {
		ch.deadline = time.Time{}
		k.grantor.Done(&ch.change)
	}
}
