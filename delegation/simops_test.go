package delegation

import "time"

// readName opens a name and reads the file found, from the cache if permitted.
func (c *simClient) readName(p dirEntry) {
	c.resolveName(p, func(f *simFile) {
		if f == nil {
			return
		}
		if c.s.oneIn(2) {
			c.askFile(f)
		}
		c.readFile(f, func(close func()) { c.readRepeatedly(f, c.s.IntN(3), close) })
	})
}

// readRepeatedly reads an open file several more times.
func (c *simClient) readRepeatedly(f *simFile, times int, close func()) {
	c.s.scheduleAfter(c.s.randomUpTo(3*time.Second), func() {
		if times == 0 {
			close()
			return
		}
		if k := c.cachedFileOf(f); k.d != nil && k.has && c.l.h.Trusts(k.d, c.clockTime()) {
			c.served++
			c.checkData(f, k.data, c.s.n, "reads again")
		}
		c.readRepeatedly(f, times-1, close)
	})
}

// checkData compares the data read with the file's history.
func (c *simClient) checkData(f *simFile, data string, from int, how string) {
	c.s.recordTrace("%s %s %s: %q", c, how, f.key, data)
	if !c.hostile && !f.data.hadSince(data, from, c.s.n) {
		c.s.recordFailure("%s reads %q of %s, which it did not hold from event %d to %d: %v", c, data, f.key, from, c.s.n, f.data.was)
	}
}

func (c *simClient) resolveName(p dirEntry, then func(*simFile)) {
	k, from := &c.dirs[p.dir], c.s.n
	found := func(f *simFile, how string) {
		c.s.recordTrace("%s %s %v: %v", c, how, p, f != nil)
		if !c.hostile && !c.s.srv.t.nameHistory(p).hadSince(f, from, c.s.n) {
			c.s.recordFailure("%s finds %v at %v, which was not there from event %d to %d", c, f, p, from, c.s.n)
		}
		then(f)
	}
	if c.s.oneIn(3) {
		c.acquireObject(&k.cachedObject, func() Stamp { return Stamp{} }, func() {})
	}
	if !k.names[p.name].known {
		c.lookUpName(p, found)
		return
	}
	c.useCached(&k.cachedObject, func(ok bool, close func()) {
		close()
		if n := k.names[p.name]; ok && n.known {
			c.served++
			found(n.f, "has cached")
			return
		}
		c.lookUpName(p, found)
	})
}

// lookUpName sends a LOOKUP call.
func (c *simClient) lookUpName(p dirEntry, found func(*simFile, string)) {
	k, l := &c.dirs[p.dir], c.l
	if l.gone {
		return
	}
	m, keep := k.own.takeMark(l.h, k.d)
	keep = keep && k.d != nil
	l.up.putItem(l.randomDelay(), func() {
		c.s.scheduleAfter(c.s.randomUpTo(10*time.Millisecond), func() {
			f := c.s.srv.t.nameHistory(p).current()
			c.s.scheduleAfter(c.s.randomUpTo(10*time.Millisecond), func() {
				l.postMessage(func() {}, func() {
					if l.gone {
						return
					}
					if keep && m.mayCache(l.h) {
						k.names[p.name].known, k.names[p.name].f = true, f
					}
					found(f, "looks up")
				})
			})
		})
	})
}

// askFile acquires a file. A READ may be in flight.
func (c *simClient) askFile(f *simFile) {
	k := c.cachedFileOf(f)
	c.acquireObject(&k.cachedObject, func() Stamp { return c.s.srv.t.stampOf(f) }, func() {
		k.has = false
		c.adoptEarlyData(k)
	})
}

// adoptEarlyData caches data read before the grant, if the grant is for the same state
// of the file.
func (c *simClient) adoptEarlyData(k *cachedFile) {
	if e := k.early; e != nil && k.d != nil && k.attr && e.m.mayCache(c.l.h) && Unchanged(e.st, k.st, e.read) {
		k.has, k.data = true, e.data
	}
}

// readFile reads all of a file.
func (c *simClient) readFile(f *simFile, then func(close func())) {
	k, from := c.cachedFileOf(f), c.s.n
	if !k.has {
		c.readCall(f, then)
		return
	}
	c.useCached(&k.cachedObject, func(ok bool, close func()) {
		if ok && k.has {
			c.served++
			c.checkData(f, k.data, from, "has cached")
			then(close)
			return
		}
		close()
		c.readCall(f, then)
	})
}

// readCall sends a READ call.
func (c *simClient) readCall(f *simFile, then func(close func())) {
	k, l, t, from := c.cachedFileOf(f), c.l, c.s.srv.t, c.s.n
	if l.gone {
		return
	}
	m, keep := k.own.takeMark(l.h, k.d)
	read := c.clocked.Reads(c.clockTime())
	l.up.putItem(l.randomDelay(), func() {
		c.s.scheduleAfter(c.s.randomUpTo(10*time.Millisecond), func() {
			data := f.data.current()
			c.s.scheduleAfter(c.s.randomUpTo(10*time.Millisecond), func() {
				st := t.stampOf(f) // after the data, as most servers do
				l.postMessage(func() {}, func() {
					if l.gone {
						return
					}
					c.clocked.Saw(st.CTime, c.clockTime())
					c.cacheReadData(l, k, m, keep, &earlyData{data, st, read, m})
					c.checkData(f, data, from, "reads")
					then(func() {})
				})
			})
		})
	})
}

// cacheReadData caches a READ's data, if permitted.
func (c *simClient) cacheReadData(l *simConn, k *cachedFile, m changeMark, keep bool, e *earlyData) {
	switch {
	case !keep || !m.mayCache(l.h):
	case m.d == nil:
		k.early = e
		c.adoptEarlyData(k)
	default:
		k.has, k.data = true, e.data
	}
}

// A pendingChange is a change whose reply has not arrived.
type pendingChange struct {
	l       *simConn
	own     []*ownChanges
	arrived bool
	landed  bool
}

func (c *simClient) finishChange(f *pendingChange) {
	if !f.landed {
		f.landed = true
		delete(c.flying, f)
		for _, own := range f.own {
			own.endChange()
		}
	}
}

// startChange starts a change by this client.
func (c *simClient) startChange(o *simOp) {
	l := c.l
	if l.gone {
		return
	}
	c.s.recordTrace("%s sends %v", c, o)
	f := &pendingChange{l: l}
	c.flying[f] = true
	touch := func(k *cachedObject) {
		k.own.beginChange()
		f.own = append(f.own, &k.own)
		k.drop()
	}
	if o.kind == opWrite || o.kind == opTruncate {
		touch(&c.cachedFileOf(o.file).cachedObject)
	} else {
		touch(&c.dirs[o.from.dir].cachedObject)
		if o.kind == opRename && o.to.dir != o.from.dir {
			touch(&c.dirs[o.to.dir].cachedObject)
		}
	}
	l.up.putItem(l.randomDelay(), func() {
		if l.cut {
			c.finishChange(f)
			return
		}
		f.arrived = true
		c.s.srv.serveChange(l.conn, o, func(made bool) {
			if l.dead {
				c.finishChange(f)
				return
			}
			l.postMessage(func() {}, func() {
				c.finishChange(f)
				if !made {
					c.s.scheduleAfter(c.s.randomUpTo(time.Second), func() { c.startChange(o) })
				}
			})
		})
	})
}

// ownChanges counts a client's own changes to an object, for which the server
// does not recall grants on the same connection.
type ownChanges struct{ inProgress, begun int }

func (c *ownChanges) beginChange() { c.inProgress, c.begun = c.inProgress+1, c.begun+1 }
func (c *ownChanges) endChange()   { c.inProgress-- }

// A changeMark is taken when the client sends a call whose reply may be cached (rule
// c).
type changeMark struct {
	d     *Delegation // nil: no delegation yet
	own   *ownChanges
	begun int
}

// takeMark returns false if the reply must not be cached.
func (c *ownChanges) takeMark(h *Holder, d *Delegation) (changeMark, bool) {
	return changeMark{d, c, c.begun}, c.inProgress == 0 && (d == nil || isUsable(h, d))
}

// mayCache reports whether the reply may be cached. Without a delegation when
// the call was sent, the data must also be Unchanged.
func (m changeMark) mayCache(h *Holder) bool {
	return m.own.begun == m.begun && (m.d == nil || isUsable(h, m.d))
}

// isUsable reports whether d has not ended.
func isUsable(h *Holder, d *Delegation) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return d.state == stateValid
}
