package delegation

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Reasons why a Grantor closes a connection.
var (
	// ErrNoRecall means that the client returned a grant that was not recalled.
	ErrNoRecall = errors.New("delegation: the client returned a delegation that was not recalled")
	// ErrUnresponsive means that a recall could not be sent for a lease time.
	ErrUnresponsive = errors.New("delegation: the client does not answer recalls")
)

// advanceGeneration is step 2: it increments the generation in the word, so
// that no later atomic operation finds the grant.
func (c *Conn) advanceGeneration(gr *grant) {
	c.updateWord(gr.slot, func(old uint64) slotWord { return makeWord(gr.generation+1, slotWord(old).opens()) })
}

// startRecall recalls a grant, unless it is already recalled.
func (g *Grantor) startRecall(gr *grant, now time.Duration) {
	if gr.phase != phaseHeld || gr.conn.ended {
		return
	}
	gr.conn.advanceGeneration(gr)
	gr.phase = phaseQueued
	if !gr.ended {
		g.setDeadline(gr, now)
	}
	gr.conn.recallQueue = append(gr.conn.recallQueue, gr)
	g.postRecalls(gr.conn)
}

// setDeadline sets the deadline for gr's next event to one lease time from now.
func (g *Grantor) setDeadline(gr *grant, now time.Duration) {
	gr.deadline = now + g.cfg.Lease
	g.timers.setTimer(timer{at: gr.deadline, grant: gr})
}

// postRecalls is step 3. It posts c's queued recalls while fewer than c.window
// recalls are outstanding. A recall whose grant the client does not know yet
// waits for Replied.
func (g *Grantor) postRecalls(c *Conn) {
	c.recallQueue = slices.DeleteFunc(c.recallQueue, func(gr *grant) bool {
		if c.outstandingRecalls == c.window || !gr.replied {
			return false
		}
		c.outstandingRecalls++
		gr.phase = phasePosted
		g.stats.Recalled++
		g.pending.Recalls = append(g.pending.Recalls, Recall{c, Immediate{KindRecall, gr.slot, gr.generation}})
		return true
	})
}

// findGrant returns c's grant with the given slot and generation, or nil.
func (c *Conn) findGrant(slot, generation uint32) *grant {
	if int64(slot) >= int64(len(c.slots)) || c.slots[slot] == nil || c.slots[slot].generation != generation {
		return nil
	}
	return c.slots[slot]
}

// Replied must be called when the reply with a grant has been posted.
func (g *Grantor) Replied(conn *Conn, gt Grant) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gr := conn.findGrant(gt.Slot, gt.Generation); gr != nil && !conn.ended {
		gr.replied = true
		g.postRecalls(conn)
	}
	return g.takeEffects()
}

// Sent must be called when a Recall has been sent: from now on, no response
// from the server can overtake it. The deadline starts here rather than when
// the recall was posted, because a posted recall may be queued after a hundred
// replies. Atomic responses overtake those replies, so the client would still
// trust its lease.
func (g *Grantor) Sent(r Recall, now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gr := r.Conn.findGrant(r.Slot, r.Generation); gr != nil && gr.phase == phasePosted && !r.Conn.ended {
		gr.phase = phaseSent
		g.setDeadline(gr, now)
	}
}

// Immediate handles Immediate Data from the client: the return of a grant.
func (g *Grantor) Immediate(conn *Conn, word [8]byte) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	if conn.ended {
		return Effects{}
	}
	m, err := ParseImmediate(word, KindReturned)
	if err != nil {
		g.cutConn(conn, err)
		return g.takeEffects()
	}
	gr := conn.findGrant(m.Slot, m.Generation)
	if gr == nil || !gr.phase.isOutstanding() {
		g.cutConn(conn, fmt.Errorf("%w: slot %d, generation %d", ErrNoRecall, m.Slot, m.Generation))
		return g.takeEffects()
	}
	g.stats.Returned++
	conn.outstandingRecalls--
	g.endGrant(gr)
	conn.freeSlot(gr)
	g.postRecalls(conn)
	return g.takeEffects()
}

// endGrant records that nothing more is served under gr.
func (g *Grantor) endGrant(gr *grant) {
	if gr.ended {
		return
	}
	gr.ended = true
	g.timers.removeTimer(gr.timerAt)
	delete(gr.conn.held, gr.key)
	g.pending.Ended = append(g.pending.Ended, gr.object)
	gr.conn.grantCount--
	g.countGrants(gr.conn.party, -1)
	g.countLien(gr, -1)
}

// handleDeadline ends a grant whose deadline has passed, or closes its
// connection.
func (g *Grantor) handleDeadline(gr *grant, now time.Duration) {
	switch c := gr.conn; {
	case gr.ended:
	case c.ended: // the client no longer trusts its cache
		g.endGrant(gr)
	case gr.phase == phaseSent:
		g.stats.Late++
		c.lateUntil = now + penaltyLeases*g.cfg.Lease
		g.penalizeLate(gr, now)
		g.endGrant(gr) // the slot stays occupied until kind 2 arrives
	default:
		g.cutConn(c, ErrUnresponsive)
	}
}
