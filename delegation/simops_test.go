package delegation

import "time"

// read opens a name and reads the file found, from the cache if permitted.
func (c *simClient) read(p place) {
	c.resolve(p, func(f *simFile) {
		if f == nil {
			return
		}
		if c.s.chance(2) {
			c.askFile(f)
		}
		c.readFile(f, func(close func()) { c.again(f, c.s.IntN(3), close) })
	})
}

// again reads an open file several more times.
func (c *simClient) again(f *simFile, times int, close func()) {
	c.s.after(c.s.upTo(3*time.Second), func() {
		if times == 0 {
			close()
			return
		}
		if k := c.file(f); k.d != nil && k.has && c.l.h.Trusts(k.d, c.clock()) {
			c.served++
			c.check(f, k.data, c.s.n, "reads again")
		}
		c.again(f, times-1, close)
	})
}

// check compares the data read with the file's history.
func (c *simClient) check(f *simFile, data string, from int, how string) {
	c.s.note("%s %s %s: %q", c, how, f.key, data)
	if !c.hostile && !f.data.had(data, from, c.s.n) {
		c.s.fail("%s reads %q of %s, which it did not hold from event %d to %d: %v", c, data, f.key, from, c.s.n, f.data.was)
	}
}

func (c *simClient) resolve(p place, then func(*simFile)) {
	k, from := &c.dirs[p.dir], c.s.n
	found := func(f *simFile, how string) {
		c.s.note("%s %s %v: %v", c, how, p, f != nil)
		if !c.hostile && !c.s.srv.t.at(p).had(f, from, c.s.n) {
			c.s.fail("%s finds %v at %v, which was not there from event %d to %d", c, f, p, from, c.s.n)
		}
		then(f)
	}
	if c.s.chance(3) {
		c.ask(&k.cached, func() Stamp { return Stamp{} }, func() {})
	}
	if !k.names[p.name].known {
		c.lookup(p, found)
		return
	}
	c.use(&k.cached, func(ok bool, close func()) {
		close()
		if n := k.names[p.name]; ok && n.known {
			c.served++
			found(n.f, "has cached")
			return
		}
		c.lookup(p, found)
	})
}

// lookup makes a LOOKUP call.
func (c *simClient) lookup(p place, found func(*simFile, string)) {
	k, l := &c.dirs[p.dir], c.l
	if l.gone {
		return
	}
	m, keep := k.own.mark(l.h, k.d)
	keep = keep && k.d != nil
	l.up.put(l.delay(), func() {
		c.s.after(c.s.upTo(10*time.Millisecond), func() {
			f := c.s.srv.t.at(p).now()
			c.s.after(c.s.upTo(10*time.Millisecond), func() {
				l.post(func() {}, func() {
					if l.gone {
						return
					}
					if keep && m.keeps(l.h) {
						k.names[p.name].known, k.names[p.name].f = true, f
					}
					found(f, "looks up")
				})
			})
		})
	})
}

// askFile asks for a delegation of a file. A READ may be under way.
func (c *simClient) askFile(f *simFile) {
	k := c.file(f)
	c.ask(&k.cached, func() Stamp { return c.s.srv.t.stamp(f) }, func() {
		k.has = false
		c.adopt(k)
	})
}

// adopt caches data read before the grant, if the grant is for the same state
// of the file.
func (c *simClient) adopt(k *cachedFile) {
	if e := k.early; e != nil && k.d != nil && k.attr && e.m.keeps(c.l.h) && Unchanged(e.st, k.st, e.read) {
		k.has, k.data = true, e.data
	}
}

// readFile reads all of a file.
func (c *simClient) readFile(f *simFile, then func(close func())) {
	k, from := c.file(f), c.s.n
	if !k.has {
		c.readCall(f, then)
		return
	}
	c.use(&k.cached, func(ok bool, close func()) {
		if ok && k.has {
			c.served++
			c.check(f, k.data, from, "has cached")
			then(close)
			return
		}
		close()
		c.readCall(f, then)
	})
}

// readCall makes a READ call.
func (c *simClient) readCall(f *simFile, then func(close func())) {
	k, l, t, from := c.file(f), c.l, c.s.srv.t, c.s.n
	if l.gone {
		return
	}
	m, keep := k.own.mark(l.h, k.d)
	read := c.clocked.Reads(c.clock())
	l.up.put(l.delay(), func() {
		c.s.after(c.s.upTo(10*time.Millisecond), func() {
			data := f.data.now()
			c.s.after(c.s.upTo(10*time.Millisecond), func() {
				st := t.stamp(f) // after the data, as most servers do
				l.post(func() {}, func() {
					if l.gone {
						return
					}
					c.clocked.Saw(st.CTime, c.clock())
					c.keep(l, k, m, keep, &earlyData{data, st, read, m})
					c.check(f, data, from, "reads")
					then(func() {})
				})
			})
		})
	})
}

// keep caches the data of a READ, if permitted.
func (c *simClient) keep(l *line, k *cachedFile, m mark, keep bool, e *earlyData) {
	switch {
	case !keep || !m.keeps(l.h):
	case m.d == nil:
		k.early = e
		c.adopt(k)
	default:
		k.has, k.data = true, e.data
	}
}

// A flight is a change whose reply has not arrived.
type flight struct {
	l       *line
	own     []*changes
	arrived bool
	landed  bool
}

func (c *simClient) land(f *flight) {
	if !f.landed {
		f.landed = true
		delete(c.flying, f)
		for _, own := range f.own {
			own.end()
		}
	}
}

// change makes a change by this client.
func (c *simClient) change(o *simOp) {
	l := c.l
	if l.gone {
		return
	}
	c.s.note("%s sends %v", c, o)
	f := &flight{l: l}
	c.flying[f] = true
	touch := func(k *cached) {
		k.own.begin()
		f.own = append(f.own, &k.own)
		k.drop()
	}
	if o.kind == opWrite || o.kind == opTruncate {
		touch(&c.file(o.file).cached)
	} else {
		touch(&c.dirs[o.from.dir].cached)
		if o.kind == opRename && o.to.dir != o.from.dir {
			touch(&c.dirs[o.to.dir].cached)
		}
	}
	l.up.put(l.delay(), func() {
		if l.cut {
			c.land(f)
			return
		}
		f.arrived = true
		c.s.srv.change(l.conn, o, func(made bool) {
			if l.dead {
				c.land(f)
				return
			}
			l.post(func() {}, func() {
				c.land(f)
				if !made {
					c.s.after(c.s.upTo(time.Second), func() { c.change(o) })
				}
			})
		})
	})
}

// changes counts a client's own changes of an object. For those changes, the
// server does not recall the grants of the same connection.
type changes struct{ underWay, begun int }

func (c *changes) begin() { c.underWay, c.begun = c.underWay+1, c.begun+1 }
func (c *changes) end()   { c.underWay-- }

// A mark is taken when the client sends a call whose reply may be cached (rule
// c).
type mark struct {
	d     *Delegation // nil: no delegation yet
	own   *changes
	begun int
}

// mark returns false if the reply must not be cached.
func (c *changes) mark(h *Holder, d *Delegation) (mark, bool) {
	return mark{d, c, c.begun}, c.underWay == 0 && (d == nil || usable(h, d))
}

// keeps reports whether the reply may be cached. Without a delegation at the
// time of the call, the data must also be Unchanged.
func (m mark) keeps(h *Holder) bool {
	return m.own.begun == m.begun && (m.d == nil || usable(h, m.d))
}

// usable reports whether d has not ended.
func usable(h *Holder, d *Delegation) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return d.state == valid
}
