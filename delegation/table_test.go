package delegation

import (
	"slices"
	"time"
)

// A testGrantor is a Grantor with a fakeTable. Its methods perform Effects.Ended, as a server does.
type testGrantor struct {
	*Grantor
	table *fakeTable
}

// A fakeTable delays changes as recall.Table does. It consists of plain values, so that the
// explorer can copy it. It is not safe for concurrent use.
type fakeTable struct {
	now     time.Duration
	held    []*heldObject
	running map[string]int           // number of running and waiting changes, by object
	pauses  map[string]time.Duration // ends of the pauses for postponed changes, by object
	unnamed int                      // number of running changes that name no object
}

// A heldObject is an object in a fakeTable.
type heldObject struct {
	table       *fakeTable
	conn        *Conn
	key         string
	acquisition *Acquisition
	confirmed   bool
	recalled    bool
	waiters     []*Change
}

// A Change is a change of objects. The zero value is ready for use, also after Done.
type Change struct {
	Waker any // for the caller

	keys  []string
	waits int // number of heldObjects to wait for
}

// effects are Effects after Ended was performed.
type effects struct {
	Effects
	Ready []*Change // changes that no longer wait
}

func newTableGrantor(c Config) *testGrantor {
	g, err := NewGrantor(c)
	if err != nil {
		panic(err)
	}
	return &testGrantor{g, &fakeTable{running: make(map[string]int), pauses: make(map[string]time.Duration)}}
}

func (o *heldObject) Hold(key []byte) bool {
	t := o.table
	o.key = string(key)
	if t.unnamed > 0 || t.running[o.key] > 0 || t.now < t.pauses[o.key] {
		return false
	}
	t.held = append(t.held, o)
	return true
}

func (o *heldObject) Confirm() bool {
	o.confirmed = !o.recalled
	return o.confirmed
}

func (o *heldObject) IsAwaited() bool { return len(o.waiters) > 0 }

// returnObject removes o, and returns the changes that no longer wait.
func (o *heldObject) returnObject() (ready []*Change) {
	o.table.held = slices.DeleteFunc(o.table.held, func(other *heldObject) bool { return other == o })
	for _, ch := range o.waiters {
		if ch.waits--; ch.waits == 0 {
			ready = append(ready, ch)
		}
	}
	o.waiters = nil
	return ready
}

// isOwn reports whether a change on conn does not recall o.
func (o *heldObject) isOwn(conn *Conn) bool {
	return o.confirmed && o.conn == conn && !o.acquisition.Lien
}

func (g *testGrantor) performEnded(fx Effects) effects {
	all := effects{Effects: fx}
	for _, o := range fx.Ended {
		all.Ready = append(all.Ready, o.(*heldObject).returnObject()...)
	}
	return all
}

func (g *testGrantor) Prepare(c *Conn, key []byte, now time.Duration) (*Acquisition, Reason, effects) {
	g.table.now = now
	o := &heldObject{table: g.table, conn: c}
	a, why, fx := g.Grantor.Prepare(c, key, o, now)
	o.acquisition = a
	return a, why, g.performEnded(fx)
}

func (g *testGrantor) Cancel(a *Acquisition) effects {
	g.Grantor.Cancel(a)
	return effects{Ready: a.object.(*heldObject).returnObject()}
}

// Commit calls Cancel if nothing was granted.
func (g *testGrantor) Commit(a *Acquisition, now time.Duration) (Grant, Reason, effects) {
	gt, why, fx := g.Grantor.Commit(a, now)
	all := g.performEnded(fx)
	if why != 0 {
		all.Ready = append(all.Ready, g.Cancel(a).Ready...)
	}
	return gt, why, all
}

// Change begins a change of an object, and reports whether ch may proceed.
func (g *testGrantor) Change(ch *Change, conn *Conn, key []byte, now time.Duration) (bool, effects) {
	t := g.table
	if slices.Contains(ch.keys, string(key)) {
		return ch.waits == 0, effects{}
	}
	ch.keys = append(ch.keys, string(key))
	t.running[string(key)]++
	var all Effects
	recall := func(o *heldObject) {
		fx := g.Grantor.Change(o.acquisition, conn, now)
		all.Recalls, all.Cuts, all.Ended = append(all.Recalls, fx.Recalls...), append(all.Cuts, fx.Cuts...), append(all.Ended, fx.Ended...)
	}
	var own []*heldObject
	for _, o := range slices.Clone(t.held) {
		switch {
		case o.key != string(key):
		case o.isOwn(conn):
			own = append(own, o)
		default:
			o.waiters = append(o.waiters, ch)
			ch.waits++
			if o.confirmed && !o.recalled {
				recall(o)
			}
			o.recalled = true
		}
	}
	for _, o := range own {
		recall(o)
	}
	fx := g.performEnded(all)
	fx.Ready = slices.DeleteFunc(fx.Ready, func(other *Change) bool { return other == ch })
	if len(fx.Ready) == 0 {
		fx.Ready = nil
	}
	return ch.waits == 0, fx
}

func (g *testGrantor) Waits(ch *Change) bool { return ch.waits > 0 }

func (g *testGrantor) Done(ch *Change) { g.finishChange(ch, 0) }

// Postpone ends a change that will be retried. The objects for which it waits are not granted for a
// lease.
func (g *testGrantor) Postpone(ch *Change, now time.Duration) { g.finishChange(ch, now+g.Lease()) }

func (g *testGrantor) finishChange(ch *Change, until time.Duration) {
	t := g.table
	for _, key := range ch.keys {
		if t.running[key]--; t.running[key] == 0 {
			delete(t.running, key)
		}
	}
	for _, o := range t.held {
		if i := slices.Index(o.waiters, ch); i >= 0 {
			o.waiters = slices.Delete(o.waiters, i, i+1)
			t.pauses[o.key] = max(t.pauses[o.key], until)
		}
	}
	ch.keys, ch.waits = nil, 0
}

func (g *testGrantor) Immediate(c *Conn, word [8]byte) effects {
	return g.performEnded(g.Grantor.Immediate(c, word))
}

func (g *testGrantor) Replied(c *Conn, gt Grant) effects {
	return g.performEnded(g.Grantor.Replied(c, gt))
}

func (g *testGrantor) Disconnect(c *Conn, byPeer bool, now time.Duration) effects {
	return g.performEnded(g.Grantor.Disconnect(c, byPeer, now))
}

func (g *testGrantor) Dismiss(c *Conn, now time.Duration) effects {
	return g.performEnded(g.Grantor.Dismiss(c, now))
}

func (g *testGrantor) Tick(now time.Duration) effects { return g.performEnded(g.Grantor.Tick(now)) }

func (g *testGrantor) MakeRoom(c *Conn, now time.Duration) (bool, effects) {
	made, fx := g.Grantor.MakeRoom(c, now)
	return made, g.performEnded(fx)
}
