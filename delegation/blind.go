package delegation

import "time"

// Blind says that ch is about to change objects, and does not say which: it may not
// have looked them up. Where it returns true, ch may be made, and until it is Done
// nothing at all is granted. It is false where the Grantor knows of any object: then
// ch has changed nothing, and each of its objects is for Change.
//
// So a server whose clients hold nothing has no more to do for a change than two
// additions.
func (g *Grantor) Blind(ch *Change) bool {
	if g == nil {
		return true
	}
	ch.blind = g.all.begin()
	return ch.blind
}

// await has changes tell their objects for a lease, since an ACQUIRE was refused for
// those that did not. Where there is always one of them, nothing would ever be granted.
func (g *Grantor) await(now time.Duration) {
	if g.awaited == 0 {
		g.awaited = now + g.cfg.Lease
		g.all.know()
		g.timers.add(timer{at: g.awaited, blind: true})
	}
}

// see lets changes be blind again.
func (g *Grantor) see() {
	g.awaited = 0
	g.all.forget()
}
