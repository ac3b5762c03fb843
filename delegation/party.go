package delegation

import "time"

// A lateness is a missed deadline of a party, on an object, or on any object if
// object is "". A client can end a connection and begin another, so lateness
// counts by party. A party may include other clients behind the same address,
// so the penalty is small.
type lateness struct{ party, object string }

// blame notes that the client of gr delayed changes. For penalty leases its
// party gets no grant of that object, and of no directory.
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

// pardon makes room for another lateness. Among some, it removes all that are
// over, then arbitrary ones as necessary. A client may be late with thousands of
// grants at once, and the caller holds mu, so pardon does not examine all.
func (g *Grantor) pardon(now time.Duration) {
	examined := 0
	for l, until := range g.lates {
		if until <= now {
			delete(g.lates, l)
		}
		if examined++; examined == pardonScan {
			break
		}
	}
	for l := range g.lates {
		if len(g.lates) < maxLate {
			return
		}
		delete(g.lates, l)
	}
}

// wasLate reports whether the party of c recently missed a deadline on an
// object.
func (g *Grantor) wasLate(c *Conn, object string, now time.Duration) bool {
	return now < g.lates[lateness{c.party, object}]
}
