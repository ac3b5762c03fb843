package delegation

import "time"

// watch begins to check the lease of a connection that received its first
// grant.
func (g *Grantor) watch(c *Conn, now time.Duration) {
	c.renewed, c.moved = c.words.Load(LeaseWord), now
	g.sampleAgain(c, now)
}

func (g *Grantor) sampleAgain(c *Conn, now time.Duration) {
	c.sampled = now + g.cfg.Lease/samples
	g.timers.add(timer{at: c.sampled, conn: c})
}

// sample checks whether the client still adds to LeaseWord. If the client has
// not done so for a lease, all its grants on the connection end.
func (g *Grantor) sample(c *Conn, now time.Duration) {
	if c.over || c.live == 0 {
		return
	}
	switch v := c.words.Load(LeaseWord); {
	case v != c.renewed:
		c.renewed, c.moved = v, now
	case now-c.moved >= g.cfg.Lease:
		g.stats.Silent++
		g.revoke(c, now)
		return
	}
	g.tidy(c, now)
	if c.live > 0 {
		g.sampleAgain(c, now)
	}
}

// revoke ends all grants of a connection whose client no longer trusts its
// cache. The recalls serve only to free the slots.
func (g *Grantor) revoke(c *Conn, now time.Duration) {
	for _, gr := range c.slots {
		if gr == nil || gr.over || g.reclaim(gr) {
			continue
		}
		g.end(gr)
		g.recall(gr, now)
	}
}

// Tick does the work that is due. The caller must call Tick at the time
// returned by Next, or soon after.
func (g *Grantor) Tick(now time.Duration) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		t, ok := g.timers.pop(now)
		if !ok {
			return g.effects()
		}
		switch {
		case t.grant != nil && t.grant.due == t.at:
			g.late(t.grant, now)
		case t.conn != nil && t.conn.sampled == t.at:
			g.sample(t.conn, now)
		case t.object != nil && t.object.until == t.at:
			t.object.until = 0
			g.forget(t.object)
		case t.blind:
			g.see()
		}
	}
}

// Next returns when Tick is due, or false if nothing is due.
func (g *Grantor) Next() (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.timers.next()
}
