package delegation

import (
	"cmp"
	"slices"
	"time"
)

// MakeRoom makes room for another Lien, which an ACQUIRE on c needs. It
// reclaims an unused grant that has a Lien, and reports whether it did. The
// grant belongs to c's party, or to a party with at least as many Liens,
// preferably the one with the most. MakeRoom examines some connections, and
// always c itself. If all grants that it examines are in use, it recalls one
// from a party with more Liens, for a later ACQUIRE.
func (g *Grantor) MakeRoom(c *Conn, now time.Duration) (bool, Effects) {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := g.liensByParty[c.party]
	var from []*Conn
	for _, other := range g.conns {
		if !other.ended && other.lienCount > 0 && g.liensByParty[other.party] >= own {
			from = append(from, other)
		}
	}
	slices.SortFunc(from, func(a, b *Conn) int {
		return cmp.Or(g.liensByParty[b.party]-g.liensByParty[a.party], b.lienCount-a.lienCount)
	})
	from = append(from[:min(len(from), lienScan)], c)
	for _, other := range from {
		if g.reclaimSome(other, hasLien) {
			return true, g.takeEffects()
		}
	}
	for _, other := range from {
		if g.liensByParty[other.party] > own+1 && g.recallNext(other, hasLien, now) {
			break
		}
	}
	return false, g.takeEffects()
}

// hasLien makes reclaimSome and recallNext pick grants with a Lien.
func hasLien(gr *grant) bool { return gr.Lien }

// countLien adds more, which may be negative, to the Lien counts for a
// connection and its party.
func (g *Grantor) countLien(gr *grant, more int) {
	if !gr.Lien {
		return
	}
	c := gr.conn
	c.lienCount += more
	if g.liensByParty[c.party] += more; g.liensByParty[c.party] == 0 {
		delete(g.liensByParty, c.party)
	}
}
