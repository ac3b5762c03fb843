package recall

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// ErrPutOff reports that a change must be tried again later: after a wait of
// Patience, or at once if too many changes of its party wait.
var ErrPutOff = errors.New("recall: clients have not yet returned their delegations")

// Patience is how long a change waits before it is put off.
const Patience = time.Second

// A Change is an operation that changes objects. The zero value is ready for use,
// and a Change is ready again after Done. A Change must not be copied.
type Change struct {
	on       []begun
	few      [4]begun // initial storage of on
	blind    bool
	waits    atomic.Int32  // holders to wait for
	woken    chan struct{} // has capacity 1
	deadline time.Time     // of Wait
}

// begun is an object of a Change: its group, and the holders that the Change waits
// for.
type begun struct {
	group *group
	key   string // empty if there is no holder to wait for
	reads bool   // so the group does not count it
}

// Blind reports whether ch may proceed without naming its objects, because
// nothing is held. Nothing will be before Done.
func (t *Table) Blind(ch *Change) bool {
	if t == nil || ch.blind {
		return true
	}
	if until := t.named.Load(); until > 0 {
		if int64(t.config.Now()) < until {
			return false
		}
		t.named.CompareAndSwap(until, 0)
	}
	if ch.blind = t.all.begin(); !ch.blind {
		t.all.end()
	}
	return ch.blind
}

// Begin announces that ch, made by a client or by 0, is about to change an object,
// and recalls the object from its holders. It reports whether ch may proceed with
// this object. If not, call Wait, and then Begin again for each object, until it
// returns true for all. A Change may name an object twice.
func (t *Table) Begin(ch *Change, client uint64, key []byte) (ready bool) {
	if t == nil {
		return true
	}
	g, free := t.begin(ch, key)
	if free {
		return true
	}
	return t.recall(ch, client, key, begun{group: g})
}

// BeginRead is Begin for a use of an object that changes nothing: it recalls the
// object from a holder that changes the object by itself. It keeps nobody from
// holding the object, so a use that lasts must be seen otherwise.
func (t *Table) BeginRead(ch *Change, client uint64, key []byte) (ready bool) {
	if !t.Written() {
		return true
	}
	if ch.on == nil {
		ch.on = ch.few[:0]
	}
	return t.recall(ch, client, key, begun{group: t.group(key), reads: true})
}

// recall recalls an object on behalf of ch, and makes ch wait for the holders.
func (t *Table) recall(ch *Change, client uint64, key []byte, in begun) (ready bool) {
	now, g := t.config.Now(), in.group
	var told []*Holder
	g.mu.Lock()
	if o := g.get(key, now); o != nil {
		for _, h := range o.holders {
			if !h.minds(client) || in.reads && h.Writer == nil {
				continue
			}
			if h.mark() {
				told = append(told, h)
			}
			g.stop(h.key, o, now+t.config.Pause)
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
	ch.on = append(ch.on, in)
	tell(told)
	return in.key == ""
}

// BeginFree is Begin for an object that is probably free: if the object must be
// recalled, BeginFree leaves ch and the object as they are, and returns false.
func (t *Table) BeginFree(ch *Change, client uint64, key []byte) bool {
	if t == nil {
		return true
	}
	g, free := t.begin(ch, key)
	if free {
		return true
	}
	g.mu.Lock()
	o := g.get(key, t.config.Now())
	held := o != nil && slices.ContainsFunc(o.holders, func(h *Holder) bool { return h.minds(client) })
	g.mu.Unlock()
	if held {
		g.tally.end()
		return false
	}
	ch.on = append(ch.on, begun{group: g})
	return true
}

// begin counts ch in the group of an object, and reports whether the group has no
// holders. If so, ch is on it.
func (t *Table) begin(ch *Change, key []byte) (g *group, free bool) {
	g = t.group(key)
	if ch.on == nil {
		ch.on = ch.few[:0]
	}
	if free = g.tally.begin(); free {
		ch.on = append(ch.on, begun{group: g})
	}
	return g, free
}

// freed notes that a holder is gone. Its group's mu is held.
func (ch *Change) freed() {
	if ch.waits.Add(-1) == 0 {
		select {
		case ch.woken <- struct{}{}:
		default:
		}
	}
}

// Await waits for done on behalf of a party, as Wait does for holders: no longer
// than Patience, and only if the party has a place.
func (t *Table) Await(ctx context.Context, party fairshare.Name, done <-chan struct{}) error {
	if !t.places.Take(party) {
		return ErrPutOff
	}
	defer t.places.Give(party)
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return ErrPutOff
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wait waits until no holder is left that Begin has met. ch is made by a party,
// which has only a share of the changes that may wait. The error is ErrPutOff, or
// the cause of ctx's end; ch is then Done.
func (t *Table) Wait(ctx context.Context, ch *Change, party fairshare.Name) error {
	if t == nil {
		return nil
	}
	if !t.places.Take(party) {
		t.Done(ch)
		return ErrPutOff
	}
	defer t.places.Give(party)
	if ch.deadline.IsZero() {
		ch.deadline = time.Now().Add(Patience)
	}
	timer := time.NewTimer(time.Until(ch.deadline))
	defer timer.Stop()
	for ch.waits.Load() > 0 {
		select {
		case <-ch.woken:
		case <-timer.C:
			t.Done(ch)
			return ErrPutOff
		case <-ctx.Done():
			t.Done(ch)
			return context.Cause(ctx)
		}
	}
	return nil
}

// Done says that ch is complete or abandoned. Done may be called twice.
func (t *Table) Done(ch *Change) {
	if t == nil {
		return
	}
	if ch.blind {
		t.all.end()
		ch.blind = false
	}
	for _, in := range ch.on {
		if in.key != "" {
			in.group.leave(in.key, ch)
		}
		if !in.reads {
			in.group.tally.end()
		}
	}
	clear(ch.on)
	ch.on, ch.deadline = ch.on[:0], time.Time{}
	ch.waits.Store(0)
	if ch.woken != nil {
		select {
		case <-ch.woken:
		default:
		}
	}
}

// leave makes ch wait for no holder of an object any more.
func (g *group) leave(key string, ch *Change) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.objects[key]
	if o == nil {
		return
	}
	for _, h := range o.holders {
		h.waiters = slices.DeleteFunc(h.waiters, func(other *Change) bool { return other == ch })
	}
}
