package delegation

import "time"

// Grants are shared out by party. One may have half of what is free, or what would be its
// share if there were one party more; so whoever comes next finds some. Who has less than
// its share, and finds none free, has the largest give some back.

// room tells whether c may have one grant more, and sees to it that there is one, now or
// when c asks again.
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

// fair returns the share of a party, of which nothing may be held yet.
func (g *Grantor) fair(party string) int {
	parties := len(g.held)
	if g.held[party] == 0 {
		parties++
	}
	return g.cfg.Grants / (parties + 1)
}

// count notes that a party has some grants more, or less.
func (g *Grantor) count(party string, more int) {
	g.live += more
	if g.held[party] += more; g.held[party] == 0 {
		delete(g.held, party)
	}
}

// recallSome asks for one grant of a party that has more than its share: one that let a
// deadline pass, or else the largest. The server does not see which grants are used, so
// they are taken by turns. It bounds how many are in a second, for the sake of who uses
// them.
func (g *Grantor) recallSome(asking string, fair int, now time.Duration) {
	if now-g.second >= time.Second {
		g.second, g.recalled = now, 0
	}
	if g.recalled == recallRate {
		return
	}
	var from *Conn
	for _, c := range g.conns {
		if c.party != asking && g.held[c.party] > fair && c.live > 0 && !c.over && (from == nil || g.before(c, from, now)) {
			from = c
		}
	}
	if from == nil {
		return
	}
	for range min(reclaimScan, len(from.slots)) {
		if gr := from.next(); gr != nil && gr.phase == held && !gr.over {
			g.recalled++
			g.recall(gr, now)
			return
		}
	}
}

// before tells whether a is to give something back rather than b.
func (g *Grantor) before(a, b *Conn, now time.Duration) bool {
	if la, lb := g.wasLate(a, "", now), g.wasLate(b, "", now); la != lb {
		return la
	}
	if g.held[a.party] != g.held[b.party] {
		return g.held[a.party] > g.held[b.party]
	}
	return a.live > b.live
}
