package delegation

import (
	"cmp"
	"slices"
	"time"
)

// MakeRoom makes room for another Lien, which an ACQUIRE of c needs. It
// reclaims an unused grant that has a Lien, and reports whether it did. The
// grant is one of c's party, or of a party with at least as many Liens,
// preferably of the party with the most. MakeRoom examines some connections,
// and always c itself. If all that it examines are in use, MakeRoom recalls one
// of a party with more, for a later ACQUIRE.
func (g *Grantor) MakeRoom(c *Conn, now time.Duration) (bool, Effects) {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := g.liens[c.party]
	var from []*Conn
	for _, other := range g.conns {
		if !other.over && other.liens > 0 && g.liens[other.party] >= own {
			from = append(from, other)
		}
	}
	slices.SortFunc(from, func(a, b *Conn) int {
		return cmp.Or(g.liens[b.party]-g.liens[a.party], b.liens-a.liens)
	})
	from = append(from[:min(len(from), roomScan)], c)
	for _, other := range from {
		if g.reclaimSome(other, hasLien) {
			return true, g.effects()
		}
	}
	for _, other := range from {
		if g.liens[other.party] > own+1 && g.recallNext(other, hasLien, now) {
			break
		}
	}
	return false, g.effects()
}

// hasLien lets reclaimSome and recallNext pick grants with a Lien.
func hasLien(gr *grant) bool { return gr.lien != nil }

// countLien adds more, which may be negative, to the Liens of a connection and
// of its party.
func (g *Grantor) countLien(gr *grant, more int) {
	if gr.lien == nil {
		return
	}
	c := gr.conn
	c.liens += more
	if g.liens[c.party] += more; g.liens[c.party] == 0 {
		delete(g.liens, c.party)
	}
}
