package delegation

import "time"

// A simClient is a client with a small cache.
type simClient struct {
	s       *sim
	name    string
	l       *line
	rate    float64 // of its clock
	dirs    [2]cachedDir
	files   map[*simFile]*cachedFile
	of      map[*Delegation]*cached
	clocked ServerClock
	stuck   time.Duration // no renewal and no drop before this time
	hostile bool
	idle    bool // the client begins nothing new
	served  int  // from the cache
	flying  map[*flight]bool
}

// cached is the client's state of one object.
type cached struct {
	key    string
	d      *Delegation
	own    changes
	asking bool
	granted
	drop func()
}

// granted is the data received with the grant.
type granted struct {
	attr bool // st is valid
	st   Stamp
}

type cachedDir struct {
	cached
	names [3]struct {
		known bool
		f     *simFile
	}
}

type cachedFile struct {
	cached
	has   bool
	data  string
	early *earlyData
}

// earlyData is data read before the grant.
type earlyData struct {
	data string
	st   Stamp
	read int64
	m    mark
}

func newSimClient(s *sim, name string) *simClient {
	c := &simClient{
		s: s, name: name, rate: 0.95 + s.Float64()/10,
		files: make(map[*simFile]*cachedFile), of: make(map[*Delegation]*cached), flying: make(map[*flight]bool),
	}
	for i := range c.dirs {
		d := &c.dirs[i]
		d.key = simKey("dir", i)
		d.drop = func() { clear(d.names[:]) }
	}
	c.l = s.newLine(c)
	s.users = append(s.users, c)
	c.renew()
	return c
}

func (c *simClient) String() string { return c.name }

// clock is the client's own clock.
func (c *simClient) clock() time.Duration { return time.Duration(float64(c.s.now) * c.rate) }

func (c *simClient) file(f *simFile) *cachedFile {
	k := c.files[f]
	if k == nil {
		k = &cachedFile{cached: cached{key: f.key}}
		k.drop = func() { k.has, k.early = false, nil }
		c.files[f] = k
	}
	return k
}

// reconnect opens the next connection.
func (c *simClient) reconnect(old *line) {
	if c.l == old && !c.idle {
		c.l = c.s.newLine(c)
	}
	for f := range c.flying {
		if f.l == old && !f.arrived {
			c.land(f)
		}
	}
}

// renew renews the lease, most of the time.
func (c *simClient) renew() {
	c.s.after(time.Second, func() {
		if !c.idle && c.s.chance(200) {
			c.stuck = c.s.now + c.s.upTo(2*simLease)
		}
		if op := new(Op); c.stuck <= c.s.now && !c.l.gone && c.l.h.Renew(op, c.clock()) {
			c.l.atomic(op, nil)
		}
		c.renew()
	})
}

// do carries out a Holder's effects.
func (c *simClient) do(l *line, fx Posts) {
	for _, d := range fx.Drops {
		if k := c.of[d]; k != nil {
			delete(c.of, d)
			k.d = nil
			k.drop()
		}
		if l.h.Recalled(d) {
			c.s.at(max(c.stuck, c.s.now)+c.s.upTo(20*time.Millisecond), func() { c.do(l, l.h.Dropped(d)) })
		}
	}
	for _, m := range fx.Returns {
		c.s.note("%s returns %d/%d", c, m.Slot, m.Generation)
		c.immediate(l, m.Bytes())
	}
}

func (c *simClient) immediate(l *line, answer [8]byte) {
	l.up.put(l.delay(), func() {
		if !l.cut {
			c.s.srv.do(c.s.srv.g.Immediate(l.conn, answer))
		}
	})
}

func (c *simClient) recall(l *line, m Immediate) {
	c.s.note("%s is asked for %d/%d", c, m.Slot, m.Generation)
	fx, err := l.h.Immediate(m.Bytes())
	if err != nil && !c.hostile {
		c.s.fail("%s: %v", c, err)
	}
	c.do(l, fx)
}

// ask sends an ACQUIRE.
func (c *simClient) ask(k *cached, stamp func() Stamp, then func()) {
	l := c.l
	if k.d != nil || k.asking || l.gone {
		return
	}
	k.asking = true
	op := new(Op)
	a, renew := l.h.Ask(op, c.clock())
	if renew {
		l.atomic(op, nil)
	}
	m, fresh := k.own.mark(l.h, nil)
	l.up.put(l.delay(), func() {
		if l.cut {
			return
		}
		c.s.srv.acquire(l, k.key, stamp, func(res *AcquireRes, st Stamp) {
			// A thread processes the reply some time later.
			c.s.after(c.s.upTo(20*time.Millisecond), func() {
				k.asking = false
				if l.gone {
					return
				}
				if res.Status != StatusOK {
					l.h.NotGranted(a)
					return
				}
				c.granted(l, k, a, res, granted{fresh && m.keeps(l.h), st}, then)
			})
		})
	})
	c.s.after(3*simLease, func() { k.asking = false }) // without a reply, the client may ask again
}

func (c *simClient) granted(l *line, k *cached, a Asking, res *AcquireRes, with granted, then func()) {
	d, fx, err := l.h.Granted(a, res)
	if err != nil && !c.hostile {
		c.s.fail("%s: %v", c, err)
	}
	c.do(l, fx)
	if d == nil {
		c.s.note("%s: %d/%d is void", c, res.Slot, res.Generation)
		return
	}
	c.s.note("%s holds %s as %d/%d", c, k.key, d.Slot, d.Generation)
	if k.d != nil { // an older delegation whose return is no longer awaited
		delete(c.of, k.d)
	}
	k.d, k.granted = d, with
	c.of[d] = k
	c.clocked.Saw(with.st.CTime, c.clock())
	then()
	c.s.after(c.s.upTo(2*time.Second), func() { c.close(l, d) })
}

func (c *simClient) close(l *line, d *Delegation) {
	if op := new(Op); !l.gone && l.h.Close(d, op, c.clock()) {
		l.atomic(op, nil)
	}
	if !l.gone && c.s.chance(10) {
		c.forget(l, d)
	}
}

// forget gives up an unused delegation.
func (c *simClient) forget(l *line, d *Delegation) {
	k := c.of[d]
	if k == nil {
		return
	}
	fx := l.h.Forget(d)
	if usable(l.h, d) {
		return // still in use
	}
	c.s.note("%s forgets %s as %d/%d", c, k.key, d.Slot, d.Generation)
	delete(c.of, d)
	k.d = nil
	k.drop()
	c.do(l, fx)
}

// use checks whether cached data of k may be served; close ends the use.
func (c *simClient) use(k *cached, then func(ok bool, close func())) {
	l, d := c.l, k.d
	if d == nil || l.gone {
		then(false, func() {})
		return
	}
	op, once := new(Op), c.s.chance(3)
	verdict := Doubt
	shut := func() {}
	if once {
		verdict = l.h.Check(d, op, c.clock())
	} else {
		verdict = l.h.Open(d, op, c.clock())
		shut = func() { c.close(l, d) }
	}
	c.s.note("%s uses %s as %d/%d, once %v: %d", c, k.key, d.Slot, d.Generation, once, verdict)
	got := func(v Verdict) { then(v == Serve && k.d == d, shut) }
	if verdict == Post {
		l.atomic(op, got)
		return
	}
	got(verdict)
}
