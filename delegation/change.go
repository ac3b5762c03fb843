package delegation

import (
	"slices"
	"time"
)

// A Change is an operation that changes objects. The zero value is ready for
// use, and a Change can be reused after Done. It must not be copied while in
// use.
type Change struct {
	// Waker is for the caller, to wake the change when Effects.Ready contains
	// it. Done keeps Waker.
	Waker any

	objects   []*object
	storage   [fewObjects]*object // initial storage for objects
	waitCount int                 // number of grants that the change waits for
}

// Change announces that ch, received on conn, is about to change an object. The
// caller must call Change for each object that ch changes, before it changes
// anything. conn is nil for a change from another source: another transport, or
// a local process.
//
// If Change returns true, ch may proceed. Otherwise ch waits for grants, and
// appears in Effects.Ready of a later call when they have ended. Grants on conn
// itself are kept unless they have a Lien, because a client must account for
// its own changes.
func (g *Grantor) Change(ch *Change, conn *Conn, key []byte, now time.Duration) (bool, Effects) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o := g.getObject(key); !slices.Contains(ch.objects, o) {
		if ch.objects == nil {
			ch.objects = ch.storage[:0]
		}
		ch.objects = append(ch.objects, o)
		g.markContended(ch, o, conn, now)
	}
	return ch.waitCount == 0, g.takeEffects()
}

// markContended makes o contended by ch: the server's step 1, and step 2 for
// each conflicting grant.
func (g *Grantor) markContended(ch *Change, o *object, conn *Conn, now time.Duration) {
	o.changeCount++
	for _, a := range o.acquisitions {
		a.stale = true
	}
	names, recalled := false, false
	for i := len(o.grants) - 1; i >= 0; i-- { // backwards, because reclaimUnused removes grants
		gr := o.grants[i]
		names = names || gr.names
		if gr.conn == conn && gr.lien == nil || g.reclaimUnused(gr) {
			continue
		}
		recalled = recalled || gr.phase == phaseHeld
		g.startRecall(gr, now)
		gr.waiters = append(gr.waiters, ch)
		ch.waitCount++
	}
	if names {
		g.recordDirChange(o.key, conn, recalled, now)
	}
}

// Waits reports whether ch still waits for grants.
func (g *Grantor) Waits(ch *Change) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return ch.waitCount > 0
}

// Done must be called when ch is complete or abandoned for good. It may be
// called twice.
func (g *Grantor) Done(ch *Change) { g.finishChange(ch, 0) }

// Postpone must be called instead of Done for a change that will be retried,
// because its caller receives NFS3ERR_JUKEBOX. The objects that ch waited for
// stay contended for one lease time. Otherwise their clients would acquire new
// grants before the retry.
func (g *Grantor) Postpone(ch *Change, now time.Duration) {
	g.finishChange(ch, now+g.cfg.Lease)
}

// finishChange is step 6.
func (g *Grantor) finishChange(ch *Change, until time.Duration) {
	if len(ch.objects) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range ch.objects {
		o.changeCount--
		for _, gr := range o.grants {
			if i := slices.Index(gr.waiters, ch); i >= 0 {
				gr.waiters = slices.Delete(gr.waiters, i, i+1)
				g.keepContended(o, until)
			}
		}
		g.forgetObject(o)
	}
	ch.objects, ch.storage, ch.waitCount = nil, [fewObjects]*object{}, 0
}

// keepContended keeps o contended for a change that will be retried.
func (g *Grantor) keepContended(o *object, until time.Duration) {
	if until > o.contendedUntil {
		o.contendedUntil = until
		g.timers.addTimer(timer{at: until, object: o})
	}
}
