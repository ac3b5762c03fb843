package delegation

import (
	"cmp"
	"time"
)

// reclaim ends a grant that is not in use, and reports whether it did. A count
// of 0 opens says that the client's next use begins with an atomic operation,
// and that operation finds the generation gone. No message is needed.
func (g *Grantor) reclaim(gr *grant) bool {
	c := gr.conn
	if gr.phase != held || c.over {
		return false
	}
	if !c.words.CompareAndSwap(gr.slot, uint64(MakeWord(gr.generation, 0)), uint64(MakeWord(gr.generation+1, 0))) {
		return false
	}
	c.generations[gr.slot] = gr.generation + 1
	g.stats.Reclaimed++
	g.end(gr)
	c.vacate(gr)
	return true
}

// reclaimAgain is reclaim for a grant whose object is about to be granted
// again. The object remains known throughout; otherwise a change could begin
// unnoticed. The generation advances, so a use of the old grant under way does
// not count for the next grant.
func (g *Grantor) reclaimAgain(gr *grant) bool {
	o := gr.object
	o.changes++
	defer func() { o.changes-- }()
	return g.reclaim(gr)
}

// tidy reclaims grants of c that have a Lien and were not used for idle leases,
// among the next slots. A Lien occupies a resource for as long as the grant
// lasts.
func (g *Grantor) tidy(c *Conn, now time.Duration) {
	for range min(reclaimScan, len(c.slots)) {
		if c.hand++; c.hand >= len(c.slots) {
			c.hand = 0
		}
		gr := c.slots[c.hand]
		switch {
		case gr == nil || gr.lien == nil:
		case Word(c.words.Load(gr.slot)).Opens() > 0:
			gr.used = now
		case now-gr.used >= idle*g.cfg.Lease:
			g.reclaim(gr)
		}
	}
}

// anyGrant lets reclaimSome and recallNext pick any grant.
func anyGrant(*grant) bool { return true }

// reclaimSome reclaims an unused grant of c for which pick returns true, if the
// next slots contain such a grant.
func (g *Grantor) reclaimSome(c *Conn, pick func(*grant) bool) bool {
	for range min(reclaimScan, len(c.slots)) {
		if gr := c.next(); gr != nil && pick(gr) && g.reclaim(gr) {
			return true
		}
	}
	return false
}

// next returns the grant in the next slot of the rotation, or nil.
func (c *Conn) next() *grant {
	if c.hand++; c.hand >= len(c.slots) {
		c.hand = 0
	}
	return c.slots[c.hand]
}

// largest returns the largest connection of the party with the most grants. By
// connections alone, a party with many small ones would take the grants of a
// party with a single large one.
func (g *Grantor) largest() *Conn {
	most := g.conns[0]
	for _, c := range g.conns {
		if !c.over && (most.over || cmp.Or(g.held[c.party]-g.held[most.party], c.live-most.live) > 0) {
			most = c
		}
	}
	return most
}
