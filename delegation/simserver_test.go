package delegation

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"
)

const (
	simSlots  = 5 // four grants per connection
	simWindow = 2
	tickLate  = 50 * time.Millisecond // how late Tick may be called
)

// A simServer is the Grantor, a file system, and the NFS server between them.
type simServer struct {
	s     *sim
	g     *Grantor
	t     *tree
	ended int           // number of grants reported as ended
	open  int           // changes not yet ended
	ticks time.Duration // time of the next Tick
}

func newSimServer(s *sim) *simServer {
	g, err := NewGrantor(Config{Lease: simLease, Slots: simSlots, Grants: 7})
	if err != nil {
		panic(err)
	}
	g.seed = simSeed
	v := &simServer{s: s, g: g}
	s.srv = v
	v.t = newTree(s)
	return v
}

// simSeed is the seed of all Grantors here, so that a key hashes to the same
// shard in each.
var (
	simSeed = maphash.MakeSeed()
	simKeys = make(map[string]string)
)

// simKey returns the key of an object. Some objects share a shard, always the
// same objects, because a schedule must be reproducible.
func simKey(kind string, n int) string {
	name := fmt.Sprint(kind, n)
	key, ok := simKeys[name]
	if !ok {
		g := Grantor{seed: simSeed}
		key = name
		for i := 0; int(g.shard([]byte(key))) != (n+len(kind))%7; i++ {
			key = fmt.Sprint(name, ".", i)
		}
		simKeys[name] = key
	}
	return key
}

// do carries out the Grantor's effects, and schedules the next Tick.
func (v *simServer) do(fx Effects) {
	for _, r := range fx.Recalls {
		l := r.Conn.Owner.(*line)
		v.s.note("recall of %d/%d of %s", r.Slot, r.Generation, l.user)
		l.post(func() { v.g.Sent(r, v.s.now); v.tick() }, func() {
			if !l.gone {
				l.user.recall(l, r.Immediate)
			}
		})
	}
	for _, c := range fx.Cuts {
		l := c.Conn.Owner.(*line)
		v.s.note("the server cuts %s off: %v", l.user, c.Err)
		if !l.user.hostile {
			if c.Err != ErrDeaf { //nolint:errorlint // it is never wrapped
				v.s.fail("%s is cut off: %v", l.user, c.Err)
			}
		}
		v.s.after(v.s.upTo(50*time.Millisecond), func() { l.lost(false) })
		l.down.put(l.delay(), l.leave)
		v.s.after(3*simLease, l.leave) // if the wire was cut too
	}
	for _, ch := range fx.Ready {
		v.s.after(0, ch.Waker.(*waker).wake)
	}
	v.ended += len(fx.Ended)
	v.tick()
}

// tick schedules the Grantor's next Tick.
func (v *simServer) tick() {
	at, ok := v.g.Next()
	if !ok || v.ticks > v.s.now && v.ticks <= at+tickLate {
		return
	}
	v.ticks = max(at, v.s.now) + 1 + v.s.upTo(tickLate-1)
	v.s.at(v.ticks, func() { v.do(v.g.Tick(v.s.now)) })
}

// A waker continues a waiting change.
type waker struct{ wake func() }

// acquire serves an ACQUIRE; reply runs when the reply arrives.
func (v *simServer) acquire(l *line, key string, stamp func() Stamp, reply func(*AcquireRes, Stamp)) {
	at, why, fx := v.g.Prepare(l.conn, []byte(key), v.s.now)
	v.do(fx)
	if why != 0 {
		l.post(func() {}, func() { reply(&AcquireRes{Status: StatusRefused, Reason: why}, Stamp{}) })
		return
	}
	if v.s.chance(20) {
		v.g.Cancel(at)
		l.post(func() {}, func() { reply(&AcquireRes{Status: StatusAcces}, Stamp{}) })
		return
	}
	v.s.after(v.s.upTo(10*time.Millisecond), func() {
		st := stamp()
		v.s.after(v.s.upTo(10*time.Millisecond), func() { v.commit(l, at, st, reply) })
	})
}

func (v *simServer) commit(l *line, at *Acquisition, st Stamp, reply func(*AcquireRes, Stamp)) {
	key := at.object.key
	gt, why, fx := v.g.Commit(at, v.s.now)
	v.do(fx)
	res := &AcquireRes{Status: StatusRefused, Reason: why}
	if why == 0 {
		v.s.note("grant %d/%d of %s to %s", gt.Slot, gt.Generation, key, l.user)
		res = &AcquireRes{
			Status: StatusOK, Slot: gt.Slot, Generation: gt.Generation, Types: allTypes,
			LeaseMS: uint32(simLease.Milliseconds()),
		}
	}
	v.s.after(v.s.upTo(10*time.Millisecond), func() {
		l.post(func() {}, func() { reply(res, st) })
		if why == 0 {
			v.do(v.g.Replied(l.conn, gt))
		}
	})
}

// change serves a change made on conn, or from elsewhere if conn is nil. over
// runs when the change has ended, with false if the change was postponed.
func (v *simServer) change(conn *Conn, o *simOp, over func(made bool)) {
	ch, waits := new(Change), true
	w := new(waker)
	ch.Waker = w
	v.open++
	try := func() {
		if !waits {
			return // postponed meanwhile
		}
		for { // until the set of affected objects is stable
			keys := v.t.objects(o)
			ready := ch.waits == 0
			for _, k := range keys {
				by := conn
				if o.kind >= opCreate && strings.HasPrefix(k, "file") {
					by = nil // the name may lead to an object that the client does not expect
				}
				var fx Effects
				ready, fx = v.g.Change(ch, by, []byte(k), v.s.now)
				v.do(fx)
			}
			if !ready {
				return // try will run again
			}
			if slices.Equal(keys, v.t.objects(o)) {
				break
			}
		}
		waits = false
		v.operate(ch, o, over)
	}
	w.wake = try
	if v.s.chance(4) { // this change has more patience than an NFS server
		try()
		return
	}
	v.s.after(Patience, func() {
		if waits {
			waits = false
			v.g.Postpone(ch, v.s.now)
			v.open--
			v.tick()
			over(false)
		}
	})
	try()
}

func (v *simServer) operate(ch *Change, o *simOp, over func(made bool)) {
	finish := func() {
		v.g.Done(ch)
		v.open--
		v.tick()
		over(true)
	}
	if o.kind == opWrite || o.kind == opTruncate { // takes some time
		v.s.after(v.s.upTo(20*time.Millisecond), func() {
			v.s.note("%v", o)
			v.t.make(o)
			v.s.after(v.s.upTo(20*time.Millisecond), finish)
		})
		return
	}
	v.s.note("%v, %d wait", o, ch.waits)
	v.t.make(o)
	v.s.after(v.s.upTo(20*time.Millisecond), finish)
}
