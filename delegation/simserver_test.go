package delegation

import (
	"slices"
	"strings"
	"time"
)

const (
	simSlots  = 5 // four grants per connection
	simWindow = 2
	patience  = time.Second           // how long a change waits
	tickLate  = 50 * time.Millisecond // how late Tick may be called
)

// A simServer is the Grantor, a file system, and the NFS server between them.
type simServer struct {
	s     *simulation
	g     *testGrantor
	t     *simTree
	ended int           // number of grants reported as ended
	open  int           // changes not yet ended
	ticks time.Duration // time of the next Tick
}

func newSimServer(s *simulation) *simServer {
	v := &simServer{s: s, g: newTableGrantor(Config{Lease: simLease, Slots: simSlots, Grants: 7})}
	s.srv = v
	v.t = newSimTree(s)
	return v
}

// applyEffects performs the Grantor's effects, and schedules the next Tick.
func (v *simServer) applyEffects(fx effects) {
	for _, r := range fx.Recalls {
		l := r.Conn.Owner.(*simConn)
		v.s.recordTrace("recall of %d/%d of %s", r.Slot, r.Generation, l.user)
		l.postMessage(func() { v.g.Sent(r, v.s.now); v.scheduleTick() }, func() {
			if !l.gone {
				l.user.handleRecall(l, r.Immediate)
			}
		})
	}
	for _, c := range fx.Cuts {
		l := c.Conn.Owner.(*simConn)
		v.s.recordTrace("the server cuts %s off: %v", l.user, c.Err)
		if !l.user.hostile {
			if c.Err != ErrUnresponsive { //nolint:errorlint // it is never wrapped
				v.s.recordFailure("%s is cut off: %v", l.user, c.Err)
			}
		}
		v.s.scheduleAfter(v.s.randomUpTo(50*time.Millisecond), func() { l.notifyServer(false) })
		l.down.putItem(l.randomDelay(), l.notifyClient)
		v.s.scheduleAfter(3*simLease, l.notifyClient) // if the wire was cut too
	}
	for _, ch := range fx.Ready {
		v.s.scheduleAfter(0, ch.Waker.(*changeWaker).wake)
	}
	v.ended += len(fx.Ended)
	v.scheduleTick()
}

// scheduleTick schedules the Grantor's next Tick.
func (v *simServer) scheduleTick() {
	at, ok := v.g.Next()
	if !ok || v.ticks > v.s.now && v.ticks <= at+tickLate {
		return
	}
	v.ticks = max(at, v.s.now) + 1 + v.s.randomUpTo(tickLate-1)
	v.s.scheduleAt(v.ticks, func() { v.applyEffects(v.g.Tick(v.s.now)) })
}

// A changeWaker continues a waiting change.
type changeWaker struct{ wake func() }

// serveAcquire serves an ACQUIRE; reply runs when the reply arrives.
func (v *simServer) serveAcquire(l *simConn, key string, stamp func() Stamp, reply func(*AcquireRes, Stamp)) {
	at, why, fx := v.g.Prepare(l.conn, []byte(key), v.s.now)
	v.applyEffects(fx)
	if why != 0 {
		l.postMessage(func() {}, func() { reply(&AcquireRes{Status: StatusRefused, Reason: why}, Stamp{}) })
		return
	}
	if v.s.oneIn(20) {
		v.applyEffects(v.g.Cancel(at))
		l.postMessage(func() {}, func() { reply(&AcquireRes{Status: StatusAcces}, Stamp{}) })
		return
	}
	v.s.scheduleAfter(v.s.randomUpTo(10*time.Millisecond), func() {
		st := stamp()
		v.s.scheduleAfter(v.s.randomUpTo(10*time.Millisecond), func() { v.commitAcquire(l, at, st, reply) })
	})
}

func (v *simServer) commitAcquire(l *simConn, at *Acquisition, st Stamp, reply func(*AcquireRes, Stamp)) {
	key := at.key
	gt, why, fx := v.g.Commit(at, v.s.now)
	v.applyEffects(fx)
	res := &AcquireRes{Status: StatusRefused, Reason: why}
	if why == 0 {
		v.s.recordTrace("grant %d/%d of %s to %s", gt.Slot, gt.Generation, key, l.user)
		res = &AcquireRes{
			Status: StatusOK, Slot: gt.Slot, Generation: gt.Generation, Types: allTypes,
			LeaseMS: uint32(simLease.Milliseconds()),
		}
	}
	v.s.scheduleAfter(v.s.randomUpTo(10*time.Millisecond), func() {
		l.postMessage(func() {}, func() { reply(res, st) })
		if why == 0 {
			v.applyEffects(v.g.Replied(l.conn, gt))
		}
	})
}

// serveChange serves a change made on conn, or from elsewhere if conn is nil. over
// runs when the change has ended, with false if the change was postponed.
func (v *simServer) serveChange(conn *Conn, o *simOp, over func(made bool)) {
	ch, waits := new(Change), true
	w := new(changeWaker)
	ch.Waker = w
	v.open++
	try := func() {
		if !waits {
			return // postponed in the meantime
		}
		for { // until the set of affected objects is stable
			keys := v.t.affectedKeys(o)
			ready := ch.waits == 0
			for _, k := range keys {
				by := conn
				if o.kind >= opCreate && strings.HasPrefix(k, "file") {
					by = nil // the name may lead to an object that the client does not expect
				}
				var fx effects
				ready, fx = v.g.Change(ch, by, []byte(k), v.s.now)
				v.applyEffects(fx)
			}
			if !ready {
				return // try will run again
			}
			if slices.Equal(keys, v.t.affectedKeys(o)) {
				break
			}
		}
		waits = false
		v.executeChange(ch, o, func() { over(true) })
	}
	w.wake = try
	if v.s.oneIn(4) { // this change has more patience than an NFS server
		try()
		return
	}
	v.s.scheduleAfter(patience, func() {
		if waits {
			waits = false
			v.g.Postpone(ch, v.s.now)
			v.open--
			v.scheduleTick()
			over(false)
		}
	})
	try()
}

func (v *simServer) executeChange(ch *Change, o *simOp, over func()) {
	finish := func() {
		v.g.Done(ch)
		v.open--
		v.scheduleTick()
		over()
	}
	if o.kind == opWrite || o.kind == opTruncate { // takes some time
		v.s.scheduleAfter(v.s.randomUpTo(20*time.Millisecond), func() {
			v.s.recordTrace("%v", o)
			v.t.applyChange(o)
			v.s.scheduleAfter(v.s.randomUpTo(20*time.Millisecond), finish)
		})
		return
	}
	v.s.recordTrace("%v, %d wait", o, ch.waits)
	v.t.applyChange(o)
	v.s.scheduleAfter(v.s.randomUpTo(20*time.Millisecond), finish)
}
