package delegation

import (
	"fmt"
	"time"
)

// A simClient is a client with a small cache.
type simClient struct {
	s       *simulation
	name    string
	l       *simConn
	rate    float64 // rate of its clock
	dirs    [2]cachedDir
	files   map[*simFile]*cachedFile
	of      map[*Delegation]*cachedObject
	clocked ServerClock
	stuck   time.Duration // no renewal and no drop before this time
	hostile bool
	idle    bool // the client begins nothing new
	served  int  // from the cache
	flying  map[*pendingChange]bool
}

// A cachedObject is the client's state for one object.
type cachedObject struct {
	key    string
	d      *Delegation
	own    ownChanges
	asking bool
	grantedData
	drop func()
}

// grantedData is the data received with the grant.
type grantedData struct {
	attr bool // st is valid
	st   Stamp
}

type cachedDir struct {
	cachedObject
	names [3]struct {
		known bool
		f     *simFile
	}
}

type cachedFile struct {
	cachedObject
	has   bool
	data  string
	early *earlyData
}

// earlyData is data read before the grant.
type earlyData struct {
	data string
	st   Stamp
	read int64
	m    changeMark
}

func newSimClient(s *simulation, name string) *simClient {
	c := &simClient{
		s: s, name: name, rate: 0.95 + s.Float64()/10,
		files: make(map[*simFile]*cachedFile), of: make(map[*Delegation]*cachedObject), flying: make(map[*pendingChange]bool),
	}
	for i := range c.dirs {
		d := &c.dirs[i]
		d.key = fmt.Sprint("dir", i)
		d.drop = func() { clear(d.names[:]) }
	}
	c.l = s.newLine(c)
	s.users = append(s.users, c)
	c.renewLease()
	return c
}

func (c *simClient) String() string { return c.name }

// clockTime is the client's own clock.
func (c *simClient) clockTime() time.Duration { return time.Duration(float64(c.s.now) * c.rate) }

func (c *simClient) cachedFileOf(f *simFile) *cachedFile {
	k := c.files[f]
	if k == nil {
		k = &cachedFile{cachedObject: cachedObject{key: f.key}}
		k.drop = func() { k.has, k.early = false, nil }
		c.files[f] = k
	}
	return k
}

// openConn opens the next connection.
func (c *simClient) openConn(old *simConn) {
	if c.l == old && !c.idle {
		c.l = c.s.newLine(c)
	}
	for f := range c.flying {
		if f.l == old && !f.arrived {
			c.finishChange(f)
		}
	}
}

// renewLease renews the lease, most of the time.
func (c *simClient) renewLease() {
	c.s.scheduleAfter(time.Second, func() {
		if !c.idle && c.s.oneIn(200) {
			c.stuck = c.s.now + c.s.randomUpTo(2*simLease)
		}
		if op := new(Op); c.stuck <= c.s.now && !c.l.gone && c.l.h.Renew(op, c.clockTime()) {
			c.l.applyAtomic(op, nil)
		}
		c.renewLease()
	})
}

// applyPosts performs a Holder's effects.
func (c *simClient) applyPosts(l *simConn, fx Posts) {
	for _, d := range fx.Drops {
		if k := c.of[d]; k != nil {
			delete(c.of, d)
			k.d = nil
			k.drop()
		}
		if l.h.Recalled(d) {
			c.s.scheduleAt(max(c.stuck, c.s.now)+c.s.randomUpTo(20*time.Millisecond), func() { c.applyPosts(l, l.h.Dropped(d)) })
		}
	}
	for _, m := range fx.Returns {
		c.s.recordTrace("%s returns %d/%d", c, m.Slot, m.Generation)
		c.postImmediate(l, m.Bytes())
	}
}

func (c *simClient) postImmediate(l *simConn, answer [8]byte) {
	l.up.putItem(l.randomDelay(), func() {
		if !l.cut {
			c.s.srv.applyEffects(c.s.srv.g.Immediate(l.conn, answer))
		}
	})
}

func (c *simClient) handleRecall(l *simConn, m Immediate) {
	c.s.recordTrace("%s is asked for %d/%d", c, m.Slot, m.Generation)
	fx, err := l.h.Immediate(m.Bytes())
	if err != nil && !c.hostile {
		c.s.recordFailure("%s: %v", c, err)
	}
	c.applyPosts(l, fx)
}

// acquireObject sends an ACQUIRE.
func (c *simClient) acquireObject(k *cachedObject, stamp func() Stamp, then func()) {
	l := c.l
	if k.d != nil || k.asking || l.gone {
		return
	}
	k.asking = true
	op := new(Op)
	a, renew := l.h.BeginAcquire(op, c.clockTime())
	if renew {
		l.applyAtomic(op, nil)
	}
	m, fresh := k.own.takeMark(l.h, nil)
	l.up.putItem(l.randomDelay(), func() {
		if l.cut {
			return
		}
		c.s.srv.serveAcquire(l, k.key, stamp, func(res *AcquireRes, st Stamp) {
			// A thread processes the reply some time later.
			c.s.scheduleAfter(c.s.randomUpTo(20*time.Millisecond), func() {
				k.asking = false
				if l.gone {
					return
				}
				if res.Status != StatusOK {
					l.h.NotGranted(a)
					return
				}
				c.handleGranted(l, k, a, res, grantedData{fresh && m.mayCache(l.h), st}, then)
			})
		})
	})
	c.s.scheduleAfter(3*simLease, func() { k.asking = false }) // without a reply, the client may try again
}

func (c *simClient) handleGranted(l *simConn, k *cachedObject, a PendingAcquire, res *AcquireRes, with grantedData, then func()) {
	d, fx, err := l.h.Granted(a, res)
	if err != nil && !c.hostile {
		c.s.recordFailure("%s: %v", c, err)
	}
	c.applyPosts(l, fx)
	if d == nil {
		c.s.recordTrace("%s: %d/%d is void", c, res.Slot, res.Generation)
		return
	}
	c.s.recordTrace("%s holds %s as %d/%d", c, k.key, d.Slot, d.Generation)
	if k.d != nil { // an older delegation whose return is no longer awaited
		delete(c.of, k.d)
	}
	k.d, k.grantedData = d, with
	c.of[d] = k
	c.clocked.Saw(with.st.CTime, c.clockTime())
	then()
	c.s.scheduleAfter(c.s.randomUpTo(2*time.Second), func() { c.closeUse(l, d) })
}

func (c *simClient) closeUse(l *simConn, d *Delegation) {
	if op := new(Op); !l.gone && l.h.Close(d, op, c.clockTime()) {
		l.applyAtomic(op, nil)
	}
	if !l.gone && c.s.oneIn(10) {
		c.forgetUnused(l, d)
	}
}

// forgetUnused gives up an unused delegation.
func (c *simClient) forgetUnused(l *simConn, d *Delegation) {
	k := c.of[d]
	if k == nil {
		return
	}
	fx := l.h.Forget(d)
	if isUsable(l.h, d) {
		return // still in use
	}
	c.s.recordTrace("%s forgets %s as %d/%d", c, k.key, d.Slot, d.Generation)
	delete(c.of, d)
	k.d = nil
	k.drop()
	c.applyPosts(l, fx)
}

// useCached checks whether k's cached data may be served; close ends the use.
func (c *simClient) useCached(k *cachedObject, then func(ok bool, close func())) {
	l, d := c.l, k.d
	if d == nil || l.gone {
		then(false, func() {})
		return
	}
	op, once := new(Op), c.s.oneIn(3)
	verdict := Doubt
	shut := func() {}
	if once {
		verdict = l.h.Check(d, op, c.clockTime())
	} else {
		verdict = l.h.Open(d, op, c.clockTime())
		shut = func() { c.closeUse(l, d) }
	}
	c.s.recordTrace("%s uses %s as %d/%d, once %v: %d", c, k.key, d.Slot, d.Generation, once, verdict)
	got := func(v Verdict) { then(v == Serve && k.d == d, shut) }
	if verdict == Post {
		l.applyAtomic(op, got)
		return
	}
	got(verdict)
}
