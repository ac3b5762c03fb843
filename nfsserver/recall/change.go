package recall

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// ErrTryLater reports that a change must be tried again later: after it has waited for MaxWait,
// or at once if too many changes from its client group wait.
var ErrTryLater = errors.New("recall: clients have not yet returned their delegations")

// MaxWait is the time that a change waits before it must be tried again later. It is long enough
// for a responsive client, and short enough that a process waiting in the kernel does not seem
// hung.
const MaxWait = time.Second

// A Changer is the origin of a change. The zero value is not a client: no holder is spared.
type Changer struct {
	Client uint64 // as in Holder.Owner, or 0
	Conn   any    // the connection on which the change arrived, as in Holder.Conn, or nil
}

// A Change is an operation that changes objects. The zero value is ready for use, and a Change
// is ready again after Done. A Change must not be copied.
type Change struct {
	objects    []changedObject
	objectsBuf [4]changedObject // initial storage for objects
	isUnnamed  bool
	waits      atomic.Int32  // number of holders to wait for
	woken      chan struct{} // has capacity 1
	deadline   time.Time     // set by Wait
}

// A changedObject is an object in a Change: its group, and whether the Change waits for
// holders.
type changedObject struct {
	group *group
	key   string // empty if there is no holder to wait for
	reads bool   // the use only reads, so the group does not count it
}

// NothingHeld reports whether ch may proceed without naming its objects, because no object is
// held. No object will be held before Done.
func (t *Table) NothingHeld(ch *Change) bool {
	if t == nil || ch.isUnnamed {
		return true
	}
	if until := t.namedUntil.Load(); until > 0 {
		if int64(t.config.Now()) < until {
			return false
		}
		t.namedUntil.CompareAndSwap(until, 0)
	}
	if t.total.isHeld() {
		return false
	}
	if ch.isUnnamed = t.total.addChange(); !ch.isUnnamed {
		t.total.endChange() // a holder has just been added
	}
	return ch.isUnnamed
}

// Begin announces that ch is about to change an object, and recalls the object from its holders.
// It reports whether ch may proceed with this object. If not, call Wait, and then Begin again for
// each object, until it returns true for all. A Change may name an object twice. A client's
// change waits for other clients, but not for the client's own holder if that can yield, or
// ignores its owner.
func (t *Table) Begin(ch *Change, by Changer, key []byte) (ready bool) {
	if t == nil {
		return true
	}
	g, free := t.countChange(ch, key)
	if free {
		return true
	}
	return t.recallObject(ch, by, key, changedObject{group: g})
}

// BeginRead is like Begin, but for a use that does not change the object: it recalls the object
// from a holder that changes it in its cache. It does not prevent others from holding the
// object, so a lasting use must be made known in another way.
func (t *Table) BeginRead(ch *Change, client uint64, key []byte) (ready bool) {
	if !t.HasWriters() {
		return true
	}
	if ch.objects == nil {
		ch.objects = ch.objectsBuf[:0]
	}
	return t.recallObject(ch, Changer{Client: client}, key, changedObject{group: t.groupOf(key), reads: true})
}

// recallObject recalls an object on behalf of ch, and makes ch wait for the holders.
func (t *Table) recallObject(ch *Change, by Changer, key []byte, in changedObject) (ready bool) {
	now, g := t.config.Now(), in.group
	var buf [2][2]*Holder
	recalled, yields := buf[0][:0], buf[1][:0]
	g.mu.Lock()
	if o := g.findObject(key, now); o != nil {
		for _, h := range o.holders {
			if in.reads && h.Writer == nil {
				continue
			}
			own := h.confirmed && h.isOwnedBy(by)
			if own && h.Yield != nil {
				yields = append(yields, h)
			}
			if own && h.IgnoreOwner {
				continue
			}
			if h.markRecalled() {
				recalled = append(recalled, h)
			}
			h.pauseAfterRecall(o, now)
			if own && h.Yield != nil {
				continue
			}
			if !slices.Contains(h.waiters, ch) {
				h.waiters = append(h.waiters, ch)
				ch.waits.Add(1)
			}
			in.key = h.key
		}
	}
	if in.key != "" && ch.woken == nil {
		ch.woken = make(chan struct{}, 1)
	}
	g.mu.Unlock()
	ch.objects = append(ch.objects, in)
	callRecalls(recalled, by)
	for _, h := range yields {
		h.Yield()
	}
	return in.key == "" || ch.waits.Load() == 0 // Recall may have called Return
}

// BeginFree is like Begin, but for an object that is probably not held: if the object would
// have to be recalled, BeginFree leaves ch and the object as they are, and returns false.
func (t *Table) BeginFree(ch *Change, client uint64, key []byte) bool {
	if t == nil {
		return true
	}
	g, free := t.countChange(ch, key)
	if free {
		return true
	}
	g.mu.Lock()
	o := g.findObject(key, t.config.Now())
	held := o != nil && slices.ContainsFunc(o.holders, func(h *Holder) bool { return h.conflictsWith(Changer{Client: client}) })
	g.mu.Unlock()
	if held {
		g.tally.endChange()
		return false
	}
	ch.objects = append(ch.objects, changedObject{group: g})
	return true
}

// countChange counts ch in an object's group, and reports whether the group has no holders. If
// so, it adds the object to ch.
func (t *Table) countChange(ch *Change, key []byte) (g *group, free bool) {
	g = t.groupOf(key)
	if ch.objects == nil {
		ch.objects = ch.objectsBuf[:0]
	}
	if free = g.tally.addChange(); free {
		ch.objects = append(ch.objects, changedObject{group: g})
	}
	return g, free
}

// holderGone records that a holder has returned the object. Its group's mu is held.
func (ch *Change) holderGone() {
	if ch.waits.Add(-1) == 0 {
		select {
		case ch.woken <- struct{}{}:
		default: // it is awake already
		}
	}
}

// Await waits for done on behalf of a client group, as Wait does for holders: no longer than
// MaxWait, and only if the group has a free place.
func (t *Table) Await(ctx context.Context, party fairshare.Name, done <-chan struct{}) error {
	if !t.places.Take(party) {
		return ErrTryLater
	}
	defer t.places.Give(party)
	timer := time.NewTimer(MaxWait)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return ErrTryLater
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wait waits until all holders that Begin has found have returned their objects. ch comes from
// a client group, which has only a share of the changes that may wait. The error is
// ErrTryLater, or the cause of ctx's end; ch is then Done.
func (t *Table) Wait(ctx context.Context, ch *Change, party fairshare.Name) error {
	if t == nil {
		return nil
	}
	if !t.places.Take(party) {
		t.endChange(ch, true)
		return ErrTryLater
	}
	defer t.places.Give(party)
	if ch.deadline.IsZero() {
		ch.deadline = time.Now().Add(MaxWait)
	}
	timer := time.NewTimer(time.Until(ch.deadline))
	defer timer.Stop()
	for ch.waits.Load() > 0 {
		select {
		case <-ch.woken:
		case <-timer.C:
			t.endChange(ch, true)
			return ErrTryLater
		case <-ctx.Done():
			t.Done(ch)
			return context.Cause(ctx)
		}
	}
	return nil
}

// Done reports that ch is complete or abandoned. Done may be called twice.
func (t *Table) Done(ch *Change) {
	if t != nil {
		t.endChange(ch, false)
	}
}

// endChange ends ch. If isPostponed is set, its client will try again.
func (t *Table) endChange(ch *Change, isPostponed bool) {
	if ch.isUnnamed {
		t.total.endChange()
		ch.isUnnamed = false
	}
	for _, in := range ch.objects {
		if in.key != "" {
			t.stopWaiting(in, ch, isPostponed)
		}
		if !in.reads {
			in.group.tally.endChange()
		}
	}
	clear(ch.objects)
	ch.objects, ch.deadline = ch.objects[:0], time.Time{}
	ch.waits.Store(0)
	if ch.woken != nil {
		select {
		case <-ch.woken:
		default:
		}
	}
}

// stopWaiting removes ch from the waiters of an object's holders. If ch is postponed, the pause
// for that begins.
func (t *Table) stopWaiting(in changedObject, ch *Change, isPostponed bool) {
	g := in.group
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.objects[in.key]
	if o == nil {
		return
	}
	for _, h := range o.holders {
		i := slices.Index(h.waiters, ch)
		if i < 0 {
			continue
		}
		h.waiters = slices.Delete(h.waiters, i, i+1)
		if isPostponed && h.RetryPause > 0 {
			g.pauseHolding(h.key, o, &o.retryUntil, t.config.Now()+h.RetryPause)
		}
	}
}
