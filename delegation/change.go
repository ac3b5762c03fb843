package delegation

import (
	"slices"
	"time"
)

// A Change is an operation that changes objects. The zero value is ready for
// use, and a Change is ready again after its end. A Change must not be copied
// in between.
type Change struct {
	// Waker is the caller's own: a means to wake the change when Effects.Ready
	// contains the Change. Waker is kept when the change ends.
	Waker any

	on      []changed
	few     [fewObjects]changed // initial storage of on
	blind   bool                // counted in Grantor.all
	noticed bool                // the Grantor knows of it
	waits   int                 // number of grants that ch waits for
}

// changed is an object of a Change; o is nil if only the shard counts the
// change.
type changed struct {
	o     *object
	shard uint8
}

// Change says that ch, made on conn, is about to change an object. The caller
// must call Change for each object that ch turns out to change, before it
// changes anything. conn is nil for a change from elsewhere: another transport,
// a local process.
//
// If Change returns true, ch waits for nothing and may proceed. Otherwise ch
// waits for grants, and appears in the Ready of a later call's Effects when the
// grants have ended. Grants of conn itself are kept unless they have a Lien: a
// client must account for its own changes.
//
// While no object of the shard is known, the cost is one addition, and another
// at the end of the change. Both additions are needed, because an ACQUIRE must
// see a change that began earlier and is still under way.
func (g *Grantor) Change(ch *Change, conn *Conn, key []byte, now time.Duration) (bool, Effects) {
	if g == nil {
		return true, Effects{}
	}
	shard := g.shard(key)
	if g.shards[shard].begin() {
		ch.add(nil, shard)
		if !ch.noticed {
			return true, Effects{}
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		return ch.waits == 0, g.effects()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	ch.noticed = true
	if o := g.object(key); !ch.has(o) {
		ch.add(o, shard)
		g.mark(ch, o, conn, now)
	}
	return ch.waits == 0, g.effects()
}

func (ch *Change) add(o *object, shard uint8) {
	if ch.on == nil {
		ch.on = ch.few[:0]
	}
	ch.on = append(ch.on, changed{o, shard})
}

func (ch *Change) has(o *object) bool {
	return slices.ContainsFunc(ch.on, func(c changed) bool { return c.o == o })
}

// mark makes o contended by ch: the server's step 1, and step 2 for each grant
// in the way.
func (g *Grantor) mark(ch *Change, o *object, conn *Conn, now time.Duration) {
	o.changes++
	for _, a := range o.asked {
		a.stale = true
	}
	names, recalled := false, false
	for i := len(o.grants) - 1; i >= 0; i-- { // from the last, because unused grants end here
		gr := o.grants[i]
		names = names || gr.names
		if gr.conn == conn && gr.lien == nil || g.reclaim(gr) {
			continue
		}
		recalled = recalled || gr.phase == held
		g.recall(gr, now)
		gr.waiters = append(gr.waiters, ch)
		ch.waits++
	}
	if names {
		g.contend(o.key, conn, recalled, now)
	}
}

// Waits reports whether ch still waits for a grant.
func (g *Grantor) Waits(ch *Change) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return ch.waits > 0
}

// Done says that ch is complete or finally abandoned. Done may be called twice.
func (g *Grantor) Done(ch *Change) { g.done(ch, 0) }

// Postpone is Done for a change that is abandoned now and will be tried again:
// its caller receives NFS3ERR_JUKEBOX. The objects that ch waited for stay
// contended for a lease. Otherwise their clients would acquire new grants
// before the change comes back.
func (g *Grantor) Postpone(ch *Change, now time.Duration) {
	if g != nil {
		g.done(ch, now+g.cfg.Lease)
	}
}

// done is step 6.
func (g *Grantor) done(ch *Change, until time.Duration) {
	if g == nil {
		return
	}
	if ch.blind {
		g.all.end()
	}
	if ch.noticed {
		g.mu.Lock()
		defer g.mu.Unlock()
	}
	for _, c := range ch.on {
		if c.o == nil {
			g.shards[c.shard].end()
			continue
		}
		c.o.changes--
		for _, gr := range c.o.grants {
			if i := slices.Index(gr.waiters, ch); i >= 0 {
				gr.waiters = slices.Delete(gr.waiters, i, i+1)
				g.stay(c.o, until)
			}
		}
		g.forget(c.o)
	}
	ch.on, ch.few, ch.blind, ch.noticed, ch.waits = nil, [fewObjects]changed{}, false, false, 0
}

// stay keeps o contended for a change that will be retried.
func (g *Grantor) stay(o *object, until time.Duration) {
	if until > o.until {
		o.until = until
		g.timers.add(timer{at: until, object: o})
	}
}
