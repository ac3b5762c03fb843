package delegation

import (
	"slices"
	"time"
)

// A Change is an operation that changes some objects. The zero value is ready for
// use, and so is one that has ended. It must not be copied in between.
type Change struct {
	// Waker is the caller's own: how it learns that the change, once in
	// Effects.Ready, may go on. It stays when the change has ended.
	Waker any

	on      []changed
	few     [fewObjects]changed // where on begins
	blind   bool                // counted in Grantor.all
	noticed bool                // the Grantor knows of it
	waits   int                 // for so many grants
}

// changed is an object of a Change; o is nil where it is counted in its shard only.
type changed struct {
	o     *object
	shard uint8
}

// Change says that ch, which came on conn, is about to change an object. It is
// called again for each object that ch turns out to change, before anything is
// changed. conn is nil for a change from elsewhere: another transport, a local
// process.
//
// Where it returns true, ch waits for nothing, and may be made. Else it waits for
// grants of other connections; it is in the Ready of a later call's Effects when
// these have ended. What a change on conn does to what conn itself holds is its
// client's own affair, but where the grant has a Lien.
//
// As long as nobody holds anything near the object, the cost is one addition, and
// one more when the change has ended: less would not do, for an ACQUIRE must see
// that a change is under way that began before it.
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

// mark makes o contended by ch: the server's step 1, and step 2 for each grant in
// the way.
func (g *Grantor) mark(ch *Change, o *object, conn *Conn, now time.Duration) {
	o.changes++
	for _, a := range o.asked {
		a.stale = true
	}
	names, recalled := false, false
	for i := len(o.grants) - 1; i >= 0; i-- { // from the last, for what is unused ends here
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

// Waits tells whether ch waits for a grant still.
func (g *Grantor) Waits(ch *Change) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return ch.waits > 0
}

// Done says that ch has been made, or given up for good. It may be called twice.
func (g *Grantor) Done(ch *Change) { g.done(ch, 0) }

// Postpone is Done for a change that is given up now and will be tried again: its
// caller has been told NFS3ERR_JUKEBOX. What it waited for stays contended for a
// lease, or those who hold it would have it again before the change comes back.
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

// stay keeps o contended for a change that will come back.
func (g *Grantor) stay(o *object, until time.Duration) {
	if until > o.until {
		o.until = until
		g.timers.add(timer{at: until, object: o})
	}
}
