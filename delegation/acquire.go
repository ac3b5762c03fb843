package delegation

import (
	"math"
	"slices"
	"time"
)

// An Acquisition is an ACQUIRE that has passed Prepare but not yet Commit.
// Between the two calls the server takes its lease of the file system and reads
// the attributes. A change of the object in the meantime makes Commit fail.
type Acquisition struct {
	// Lien is the caller's own, set before Commit: a resource that the grant
	// depends on, such as a lease of the file system. Any change by the server
	// breaks such a lease. Therefore, if Lien is not nil, changes on the
	// grant's own connection recall the grant too.
	Lien any

	// Names says that the object is a directory. The caller must set Names
	// before Commit.
	Names bool

	conn   *Conn
	object *object
	stale  bool // the object has changed or is being changed
}

// A Grant identifies a grant in the reply to an ACQUIRE.
type Grant struct {
	Slot       uint32
	Generation uint32
}

// Prepare begins a grant of an object to conn. If Prepare returns no reason
// against the grant, the caller must call Commit or Cancel.
func (g *Grantor) Prepare(conn *Conn, key []byte, now time.Duration) (*Acquisition, Reason, Effects) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.object(key)
	defer g.forget(o)
	if why := g.refusal(conn, o, now); why != 0 {
		g.refuse(why)
		return nil, why, g.effects()
	}
	a := &Acquisition{conn: conn, object: o}
	o.asked = append(o.asked, a)
	return a, 0, g.effects()
}

func (g *Grantor) refusal(c *Conn, o *object, now time.Duration) Reason {
	gr, a := o.of(c)
	switch {
	case c.over:
		return ReasonOver
	case now < c.late:
		return ReasonLate
	case g.wasLate(c, o.key, now), g.contested(o.key, now):
		return ReasonContended
	case g.all.busy():
		g.await(now)
		return ReasonContended
	case g.shards[o.shard].busy() || o.contended(now):
		return ReasonContended
	case a != nil:
		return ReasonHeld
	case gr != nil && !g.reclaimAgain(gr):
		// The client has lost track of the grant, or wants more types of the
		// object. It may still use the grant.
		g.recall(gr, now)
		return ReasonHeld
	}
	return 0
}

// Cancel ends an Acquisition without a grant.
func (g *Grantor) Cancel(a *Acquisition) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave(a)
	g.forget(a.object)
}

func (g *Grantor) leave(a *Acquisition) {
	if i := slices.Index(a.object.asked, a); i >= 0 {
		a.object.asked = slices.Delete(a.object.asked, i, i+1)
	}
}

// Commit makes the grant, if there is still no reason against it. The word of
// the slot is written before Commit returns. The reply may contain attributes
// read at any time since Prepare. The caller must call Grantor.Replied when the
// reply has been posted; a recall is posted only after that.
func (g *Grantor) Commit(a *Acquisition, now time.Duration) (Grant, Reason, Effects) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gt, why := g.commit(a, now)
	if why != 0 {
		g.refuse(why)
	}
	g.leave(a) // only now: o must not be forgotten while room makes room
	g.forget(a.object)
	return gt, why, g.effects()
}

func (g *Grantor) commit(a *Acquisition, now time.Duration) (Grant, Reason) {
	c, o := a.conn, a.object
	switch {
	case c.over:
		return Grant{}, ReasonOver
	case now < c.late:
		return Grant{}, ReasonLate
	case a.stale, a.Names && g.wasLate(c, "", now):
		return Grant{}, ReasonContended
	case !g.room(c, now):
		return Grant{}, ReasonLimit
	}
	slot := g.slot(c)
	if slot == LeaseWord {
		return Grant{}, ReasonLimit
	}
	gr := &grant{conn: c, object: o, lien: a.Lien, names: a.Names, used: now, slot: slot, generation: c.generations[slot] + 1}
	c.slots[slot] = gr
	c.write(slot, func(uint64) Word { return MakeWord(gr.generation, 1) })
	o.grants = append(o.grants, gr)
	g.count(c.party, 1)
	g.countLien(gr, 1)
	g.stats.Granted++
	if c.live++; c.live == 1 {
		g.watch(c, now)
	}
	return Grant{gr.slot, gr.generation}, 0
}

// slot returns a free slot of c, or LeaseWord if there is none.
func (g *Grantor) slot(c *Conn) uint32 {
	if len(c.free) == 0 && len(c.slots) < g.cfg.Slots {
		c.slots, c.generations = append(c.slots, nil), append(c.generations, 0)
		return uint32(len(c.slots) - 1)
	}
	if len(c.free) == 0 && !g.reclaimSome(c, anyGrant) || len(c.free) == 0 {
		return LeaseWord
	}
	slot := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	return slot
}

// vacate frees the slot of gr for another grant, after kind 2 has arrived or if
// no recall was needed. A slot with no generations left stays empty.
func (c *Conn) vacate(gr *grant) {
	c.slots[gr.slot] = nil
	if c.generations[gr.slot] < math.MaxUint32-1 {
		c.free = append(c.free, gr.slot)
	}
}
