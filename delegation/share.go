package delegation

import "time"

// The Grantor shares grants among parties. While grants are free, a party may
// have another if it holds fewer than are free, or fewer than its share would
// be with one more party. A new party therefore finds some free. If a party
// below its share finds none free, the Grantor recalls a grant of a party above
// its share.

// room reports whether c may have another grant, and makes room for that grant,
// either now or for a later request of c.
func (g *Grantor) room(c *Conn, now time.Duration) bool {
	free, own, fair := g.cfg.Grants-g.live, g.held[c.party], g.fair(c.party)
	switch {
	case free > 0 && (own < free || own < fair):
		return true
	case free > 0:
		return g.reclaimSome(c, anyGrant)
	case g.reclaimSome(g.largest(), anyGrant):
		return true
	case own < fair:
		g.recallSome(c.party, fair, now)
	}
	return false
}

// fair returns the share of a party, which may be new.
func (g *Grantor) fair(party string) int {
	parties := len(g.held)
	if g.held[party] == 0 {
		parties++
	}
	return g.cfg.Grants / (parties + 1)
}

// count adds more, which may be negative, to the grants of a party.
func (g *Grantor) count(party string, more int) {
	g.live += more
	if g.held[party] += more; g.held[party] == 0 {
		delete(g.held, party)
	}
}

// recallSome recalls one grant of a party above its share: preferably of a
// party that missed a deadline, otherwise of the largest. The server cannot see
// which grants are in use, so it takes a party's grants in rotation. At most
// recallRate grants are recalled in a second, to spare the clients that use
// them.
func (g *Grantor) recallSome(asking string, fair int, now time.Duration) {
	var from *Conn
	for _, c := range g.conns {
		if c.party != asking && g.held[c.party] > fair && c.live > 0 && !c.over && (from == nil || g.before(c, from, now)) {
			from = c
		}
	}
	if from != nil {
		g.recallNext(from, anyGrant, now)
	}
}

// recallNext recalls the next grant of c for which pick returns true, if the
// rate permits and the next slots contain such a grant. It reports whether it
// did.
func (g *Grantor) recallNext(c *Conn, pick func(*grant) bool, now time.Duration) bool {
	if now-g.second >= time.Second {
		g.second, g.recalled = now, 0
	}
	if g.recalled == recallRate {
		return false
	}
	for range min(reclaimScan, len(c.slots)) {
		if gr := c.next(); gr != nil && gr.phase == held && !gr.over && pick(gr) {
			g.recalled++
			g.recall(gr, now)
			return true
		}
	}
	return false
}

// before reports whether a must give up a grant before b.
func (g *Grantor) before(a, b *Conn, now time.Duration) bool {
	if la, lb := g.wasLate(a, "", now), g.wasLate(b, "", now); la != lb {
		return la
	}
	if g.held[a.party] != g.held[b.party] {
		return g.held[a.party] > g.held[b.party]
	}
	return a.live > b.live
}
