package delegation

import (
	"math"
	"time"
)

// An Acquisition is an ACQUIRE between Prepare and Commit. Between the two
// calls the server acquires its lease from the file system and reads the
// attributes. If the object changes in the meantime, Commit fails.
type Acquisition struct {
	// Lien says that the grant depends on a resource such as a file system
	// lease, which any change by the server breaks. Therefore changes on the
	// grant's own connection recall the grant too. The caller must set Lien
	// before Commit.
	Lien bool

	// Names says that the object is a directory. The caller must set Names
	// before Commit.
	Names bool

	conn   *Conn
	key    string
	object HeldObject
	grant  *grant // nil before Commit
}

// A Grant identifies a grant in the reply to an ACQUIRE.
type Grant struct {
	Slot       uint32
	Generation uint32
}

// Prepare starts granting an object to conn, and adds it to the table (HeldObject.Hold). If it
// returns no Reason, the caller must call Commit or Cancel.
func (g *Grantor) Prepare(conn *Conn, key []byte, object HeldObject, now time.Duration) (*Acquisition, Reason, Effects) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := &Acquisition{conn: conn, key: string(key), object: object}
	why := g.refusalReason(conn, a.key, now)
	if why == 0 && !object.Hold(key) {
		why = ReasonContended
	}
	if why != 0 {
		g.countRefusal(why)
		return nil, why, g.takeEffects()
	}
	conn.held[a.key] = a
	return a, 0, g.takeEffects()
}

func (g *Grantor) refusalReason(c *Conn, key string, now time.Duration) Reason {
	a := c.held[key]
	switch {
	case c.ended:
		return ReasonOver
	case now < c.lateUntil:
		return ReasonLate
	case g.isPenalized(c, key, now), g.isContested(key, now):
		return ReasonContended
	case a != nil && a.grant == nil:
		return ReasonHeld
	case a != nil && !g.reclaimUnused(a.grant):
		// The client has lost track of the grant, or wants more types. It may
		// still use the grant.
		g.startRecall(a.grant, now)
		return ReasonHeld
	}
	return 0
}

// Cancel abandons an Acquisition without a grant. The caller must then return the object.
func (g *Grantor) Cancel(a *Acquisition) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(a.conn.held, a.key)
}

// Commit creates the grant, unless there is now a Reason not to. The slot's
// word is written before Commit returns. The reply may contain attributes that
// were read at any time since Prepare. The caller must call Grantor.Replied
// when the reply has been posted; a recall is posted only after that. If Commit
// returns a Reason, the caller must call Cancel.
func (g *Grantor) Commit(a *Acquisition, now time.Duration) (Grant, Reason, Effects) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gt, why := g.commitGrant(a, now)
	if why != 0 {
		g.countRefusal(why)
	}
	return gt, why, g.takeEffects()
}

func (g *Grantor) commitGrant(a *Acquisition, now time.Duration) (Grant, Reason) {
	c := a.conn
	switch {
	case c.ended:
		return Grant{}, ReasonOver
	case now < c.lateUntil:
		return Grant{}, ReasonLate
	case a.Names && g.isPenalized(c, "", now), !a.object.Confirm():
		return Grant{}, ReasonContended
	case !g.makeRoomFor(c, now):
		return Grant{}, ReasonLimit
	}
	slot := g.allocateSlot(c)
	if slot == LeaseWord {
		return Grant{}, ReasonLimit
	}
	gr := &grant{Acquisition: a, lastUsed: now, slot: slot, generation: c.generations[slot] + 1}
	c.slots[slot] = gr
	c.updateWord(slot, func(uint64) slotWord { return makeWord(gr.generation, 1) })
	a.grant = gr
	g.countGrants(c.party, 1)
	g.countLien(gr, 1)
	g.stats.Granted++
	if c.grantCount++; c.grantCount == 1 {
		g.startSampling(c, now)
	}
	return Grant{gr.slot, gr.generation}, 0
}

// allocateSlot returns one of c's free slots, or LeaseWord if there is none.
func (g *Grantor) allocateSlot(c *Conn) uint32 {
	if len(c.freeSlots) == 0 && len(c.slots) < g.cfg.Slots {
		c.slots, c.generations = append(c.slots, nil), append(c.generations, 0)
		return uint32(len(c.slots) - 1)
	}
	if len(c.freeSlots) == 0 && !g.reclaimSome(c, anyGrant) || len(c.freeSlots) == 0 {
		return LeaseWord
	}
	slot := c.freeSlots[len(c.freeSlots)-1]
	c.freeSlots = c.freeSlots[:len(c.freeSlots)-1]
	return slot
}

// freeSlot frees gr's slot for another grant, after kind 2 has arrived or if no
// recall was needed. A slot whose generations are exhausted stays empty.
func (c *Conn) freeSlot(gr *grant) {
	c.slots[gr.slot] = nil
	if c.generations[gr.slot] < math.MaxUint32-1 {
		c.freeSlots = append(c.freeSlots, gr.slot)
	}
}
