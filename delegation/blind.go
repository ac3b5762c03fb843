package delegation

import "time"

// Blind announces that ch is about to change objects that it does not name, for
// instance because they are not looked up yet. If Blind returns true, ch may
// proceed, and nothing is granted until ch is Done. Blind returns false if the
// Grantor knows any object, or if an ACQUIRE was recently refused because of
// blind changes. Then the caller must call Change for each object before any
// change.
//
// Blind makes changes cheap while clients hold nothing: two additions.
func (g *Grantor) Blind(ch *Change) bool {
	if g == nil {
		return true
	}
	ch.blind = g.total.beginChange()
	return ch.blind
}

// requireNamedChanges makes changes name their objects for one lease time,
// because an ACQUIRE was refused due to blind changes. Otherwise a steady flow
// of blind changes would prevent all grants.
func (g *Grantor) requireNamedChanges(now time.Duration) {
	if g.namedUntil == 0 {
		g.namedUntil = now + g.cfg.Lease
		g.total.addObject()
		g.timers.addTimer(timer{at: g.namedUntil, blind: true})
	}
}

// permitBlindChanges permits blind changes again.
func (g *Grantor) permitBlindChanges() {
	g.namedUntil = 0
	g.total.removeObject()
}
