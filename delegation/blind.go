package delegation

import "time"

// Blind says that ch is about to change objects without naming them; the caller
// may not have looked them up yet. If Blind returns true, ch may proceed, and
// nothing at all is granted until ch is Done. Blind returns false if the
// Grantor knows any object, or soon after an ACQUIRE was refused because of
// blind changes. Then ch must call Change for each object before any change.
//
// Blind keeps a change cheap while clients hold nothing: two additions.
func (g *Grantor) Blind(ch *Change) bool {
	if g == nil {
		return true
	}
	ch.blind = g.all.begin()
	return ch.blind
}

// await makes changes name their objects for a lease, because an ACQUIRE was
// refused on account of blind changes. Without await, a steady flow of blind
// changes would prevent all grants.
func (g *Grantor) await(now time.Duration) {
	if g.awaited == 0 {
		g.awaited = now + g.cfg.Lease
		g.all.know()
		g.timers.add(timer{at: g.awaited, blind: true})
	}
}

// see permits blind changes again.
func (g *Grantor) see() {
	g.awaited = 0
	g.all.forget()
}
