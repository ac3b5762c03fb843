package delegation

import "time"

// A lateness is what a party let a deadline pass on: an object, or "" for anything at
// all. A party is all connections of who can end one and begin another, and perhaps of
// others behind the same address; so what it did keeps it from little.
type lateness struct{ party, object string }

// blame says that the client of gr has kept changes waiting: for some leases its party
// gets nothing of that object, and no directory.
func (g *Grantor) blame(gr *grant, now time.Duration) {
	until := now + penalty*g.cfg.Lease
	g.punish(lateness{gr.conn.party, ""}, until, now)
	g.punish(lateness{gr.conn.party, gr.object.key}, until, now)
}

func (g *Grantor) punish(l lateness, until, now time.Duration) {
	if _, there := g.lates[l]; !there && len(g.lates) >= maxLate {
		g.pardon(now)
	}
	g.lates[l] = until
}

// pardon makes room for one lateness more: all that are over go, or else any.
func (g *Grantor) pardon(now time.Duration) {
	for l, until := range g.lates {
		if until <= now {
			delete(g.lates, l)
		}
	}
	for l := range g.lates {
		if len(g.lates) < maxLate {
			return
		}
		delete(g.lates, l)
	}
}

// wasLate tells whether the party of c let a deadline pass on an object not long ago.
func (g *Grantor) wasLate(c *Conn, object string, now time.Duration) bool {
	return now < g.lates[lateness{c.party, object}]
}
