package delegation

import "time"

// Change must be called when by is about to change the object of a grant; by is nil if the change
// comes from another source, such as another transport or a local process. Change recalls the
// grant: steps 2 and 3 of the server. A grant on by itself is kept unless it has a Lien, because
// a client must account for its own changes. The change must wait until the object has been
// returned (Effects.Ended).
func (g *Grantor) Change(a *Acquisition, by *Conn, now time.Duration) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	gr := a.grant
	if gr == nil || gr.ended {
		return Effects{} // the caller is returning the object
	}
	recalled := false
	if gr.conn != by || gr.Lien {
		if g.reclaimUnused(gr) {
			return g.takeEffects()
		}
		recalled = gr.phase == phaseHeld
		g.startRecall(gr, now)
	}
	if gr.Names {
		g.recordDirChange(gr.key, by, recalled, now)
	}
	return g.takeEffects()
}
