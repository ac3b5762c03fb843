package delegation

import "time"

// startSampling starts checking the lease on a connection that received its
// first grant.
func (g *Grantor) startSampling(c *Conn, now time.Duration) {
	c.lastLeaseWord, c.leaseMovedAt = c.words.Load(LeaseWord), now
	g.scheduleSample(c, now)
}

func (g *Grantor) scheduleSample(c *Conn, now time.Duration) {
	c.nextSample = now + g.cfg.Lease/samplesPerLease
	g.timers.setTimer(timer{at: c.nextSample, conn: c})
}

// sampleLease checks whether the client still adds to LeaseWord. If it has not
// done so for a lease time, all its grants on the connection are revoked.
func (g *Grantor) sampleLease(c *Conn, now time.Duration) {
	if c.ended || c.grantCount == 0 {
		return
	}
	switch v := c.words.Load(LeaseWord); {
	case v != c.lastLeaseWord:
		c.lastLeaseWord, c.leaseMovedAt = v, now
	case now-c.leaseMovedAt >= g.cfg.Lease:
		g.stats.Silent++
		g.revokeGrants(c, now)
		return
	}
	g.reclaimIdle(c, now)
	if c.grantCount > 0 {
		g.scheduleSample(c, now)
	}
}

// revokeGrants revokes all grants on a connection whose client no longer trusts
// its cache. The recalls serve only to free the slots.
func (g *Grantor) revokeGrants(c *Conn, now time.Duration) {
	for _, gr := range c.slots {
		if gr == nil || gr.ended || g.reclaimUnused(gr) {
			continue
		}
		g.endGrant(gr)
		g.startRecall(gr, now)
	}
}

// Tick handles all due timers. The caller must call Tick at the time returned
// by Next, or soon after.
func (g *Grantor) Tick(now time.Duration) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		t, ok := g.timers.popDue(now)
		if !ok {
			return g.takeEffects()
		}
		switch {
		case t.grant != nil && t.grant.deadline == t.at:
			g.handleDeadline(t.grant, now)
		case t.conn != nil && t.conn.nextSample == t.at:
			g.sampleLease(t.conn, now)
		}
	}
}

// Next returns when Tick is due, or false if nothing is due.
func (g *Grantor) Next() (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.timers.earliestTime()
}
