package delegation

import (
	"cmp"
	"time"
)

// reclaimUnused ends a grant that is not in use, and reports whether it did. If
// the word counts 0 opens, the client's next use starts with an atomic
// operation, which finds another generation. No message is needed.
func (g *Grantor) reclaimUnused(gr *grant) bool {
	c := gr.conn
	if gr.phase != phaseHeld || c.ended {
		return false
	}
	if !c.words.CompareAndSwap(gr.slot, uint64(makeWord(gr.generation, 0)), uint64(makeWord(gr.generation+1, 0))) {
		return false
	}
	c.generations[gr.slot] = gr.generation + 1
	g.stats.Reclaimed++
	g.endGrant(gr)
	c.freeSlot(gr)
	return true
}

// reclaimIdle reclaims c's grants, among the next slots, that have a Lien and
// were unused for idleLeases. A Lien occupies a resource while the grant lasts.
func (g *Grantor) reclaimIdle(c *Conn, now time.Duration) {
	for range min(reclaimScan, len(c.slots)) {
		if c.scanPos++; c.scanPos >= len(c.slots) {
			c.scanPos = 0
		}
		gr := c.slots[c.scanPos]
		switch {
		case gr == nil || !gr.Lien:
		case slotWord(c.words.Load(gr.slot)).opens() > 0:
			gr.lastUsed = now
		case now-gr.lastUsed >= idleLeases*g.cfg.Lease:
			g.reclaimUnused(gr)
		}
	}
}

// anyGrant makes reclaimSome and recallNext pick any grant.
func anyGrant(*grant) bool { return true }

// reclaimSome reclaims one of c's unused grants for which pick returns true, if
// the next slots contain one.
func (g *Grantor) reclaimSome(c *Conn, pick func(*grant) bool) bool {
	for range min(reclaimScan, len(c.slots)) {
		if gr := c.nextGrant(); gr != nil && pick(gr) && g.reclaimUnused(gr) {
			return true
		}
	}
	return false
}

// nextGrant returns the grant in the next slot of the rotation, or nil.
func (c *Conn) nextGrant() *grant {
	if c.scanPos++; c.scanPos >= len(c.slots) {
		c.scanPos = 0
	}
	return c.slots[c.scanPos]
}

// largestConn returns the connection with the most grants, in the party with
// the most grants. If only connections counted, a party with many small ones
// would take grants from a party with a single large one.
func (g *Grantor) largestConn() *Conn {
	most := g.conns[0]
	for _, c := range g.conns {
		if !c.ended && (most.ended || cmp.Or(g.heldByParty[c.party]-g.heldByParty[most.party], c.grantCount-most.grantCount) > 0) {
			most = c
		}
	}
	return most
}
