package delegation

import "time"

// reclaim ends a grant that is not in use, and tells whether it did: where the
// client says so by opens of 0, its next use begins with an atomic operation, which
// finds the generation gone. It needs no message.
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

// reclaimAgain is reclaim for a grant whose object is about to be granted again: that is
// known all the while, or else a change could begin that nobody notices. The generation
// is counted up, so that no use that is under way is taken for one of the next grant.
func (g *Grantor) reclaimAgain(gr *grant) bool {
	o := gr.object
	o.changes++
	defer func() { o.changes-- }()
	return g.reclaim(gr)
}

// tidy reclaims what c holds with a Lien and has not used for idle leases, among the
// next slots: the Lien costs whoever gives it for as long as it lasts.
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

// MakeRoom ends an unused grant that has a Lien, if it finds one soon, and tells
// whether it did: whoever gives the caller what its Liens stand for has no more.
func (g *Grantor) MakeRoom() (bool, Effects) {
	g.mu.Lock()
	defer g.mu.Unlock()
	made := len(g.conns) > 0 && g.reclaimSome(g.largest(), func(gr *grant) bool { return gr.lien != nil })
	return made, g.effects()
}

// anyGrant is what reclaimSome may pick where it makes no difference.
func anyGrant(*grant) bool { return true }

// reclaimSome ends one unused grant of c that pick agrees to, if it finds one among
// the next slots.
func (g *Grantor) reclaimSome(c *Conn, pick func(*grant) bool) bool {
	for range min(reclaimScan, len(c.slots)) {
		if gr := c.next(); gr != nil && pick(gr) && g.reclaim(gr) {
			return true
		}
	}
	return false
}

// next returns what is in the slot whose turn it is, or nil.
func (c *Conn) next() *grant {
	if c.hand++; c.hand >= len(c.slots) {
		c.hand = 0
	}
	return c.slots[c.hand]
}

// largest returns the connection that holds most.
func (g *Grantor) largest() *Conn {
	most := g.conns[0]
	for _, c := range g.conns {
		if c.live > most.live && !c.over {
			most = c
		}
	}
	return most
}
