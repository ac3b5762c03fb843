package delegation

import "time"

// A penaltyKey identifies a penalty for a missed deadline, by party and object,
// or for all directories if object is "". A client can close a connection and
// open another, so penalties count by party. A party may include other clients
// behind the same address, so the penalty is small.
type penaltyKey struct{ party, object string }

// penalizeLate records that gr's client delayed changes. For penaltyLeases
// leases its party gets no grant for that object, or for any directory.
func (g *Grantor) penalizeLate(gr *grant, now time.Duration) {
	until := now + penaltyLeases*g.cfg.Lease
	g.addPenalty(penaltyKey{gr.conn.party, ""}, until, now)
	g.addPenalty(penaltyKey{gr.conn.party, gr.key}, until, now)
}

func (g *Grantor) addPenalty(l penaltyKey, until, now time.Duration) {
	if _, exists := g.penalties[l]; !exists && len(g.penalties) >= maxPenalties {
		g.removeOldPenalties(now)
	}
	g.penalties[l] = until
}

// removeOldPenalties makes space for another penalty. It examines some and
// removes those that have expired, then removes arbitrary ones if necessary. It
// does not examine all, because the caller holds mu, and a client may be late
// with thousands of grants at once.
func (g *Grantor) removeOldPenalties(now time.Duration) {
	examined := 0
	for l, until := range g.penalties {
		if until <= now {
			delete(g.penalties, l)
		}
		if examined++; examined == penaltyScan {
			break
		}
	}
	for l := range g.penalties {
		if len(g.penalties) < maxPenalties {
			return
		}
		delete(g.penalties, l)
	}
}

// isPenalized reports whether c's party recently missed a deadline for an
// object.
func (g *Grantor) isPenalized(c *Conn, object string, now time.Duration) bool {
	return now < g.penalties[penaltyKey{c.party, object}]
}
