package delegation

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Reasons why a Grantor ends a connection.
var (
	// ErrNoRecall: the client returns a grant that was not recalled.
	ErrNoRecall = errors.New("delegation: the client returned a delegation that was not recalled")
	// ErrDeaf: a recall could not be sent for a lease.
	ErrDeaf = errors.New("delegation: the client does not answer recalls")
)

// retire is step 2: it increments the generation in the word, so that from now
// on no atomic operation finds the grant.
func (c *Conn) retire(gr *grant) {
	c.write(gr.slot, func(old uint64) Word { return MakeWord(gr.generation+1, Word(old).Opens()) })
}

// recall begins the recall of a grant, unless already begun.
func (g *Grantor) recall(gr *grant, now time.Duration) {
	if gr.phase != held || gr.conn.over {
		return
	}
	gr.conn.retire(gr)
	gr.phase = queued
	if !gr.over {
		g.expect(gr, now)
	}
	gr.conn.queue = append(gr.conn.queue, gr)
	g.post(gr.conn)
}

// expect sets the deadline for the next event of gr to a lease from now.
func (g *Grantor) expect(gr *grant, now time.Duration) {
	gr.due = now + g.cfg.Lease
	g.timers.add(timer{at: gr.due, grant: gr})
}

// post is step 3. It posts queued recalls of c as long as fewer than c.window
// recalls are unanswered. A recall whose grant the client does not know yet
// waits for Replied.
func (g *Grantor) post(c *Conn) {
	c.queue = slices.DeleteFunc(c.queue, func(gr *grant) bool {
		if c.unanswered == c.window || !gr.replied {
			return false
		}
		c.unanswered++
		gr.phase = posted
		g.stats.Recalled++
		g.fx.Recalls = append(g.fx.Recalls, Recall{c, Immediate{KindRecall, gr.slot, gr.generation}})
		return true
	})
}

// find returns the grant of c with the given slot and generation, or nil.
func (c *Conn) find(slot, generation uint32) *grant {
	if int64(slot) >= int64(len(c.slots)) || c.slots[slot] == nil || c.slots[slot].generation != generation {
		return nil
	}
	return c.slots[slot]
}

// Replied says that the reply with a grant has been posted.
func (g *Grantor) Replied(conn *Conn, gt Grant) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gr := conn.find(gt.Slot, gt.Generation); gr != nil && !conn.over {
		gr.replied = true
		g.post(conn)
	}
	return g.effects()
}

// Sent says that a Recall has left: from now on, no answer of the server can
// overtake the Recall. The deadline begins here rather than when the recall was
// posted. A posted recall may be queued behind a hundred replies. Answers to
// atomic operations overtake those replies, so the client would still trust its
// lease.
func (g *Grantor) Sent(r Recall, now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gr := r.Conn.find(r.Slot, r.Generation); gr != nil && gr.phase == posted && !r.Conn.over {
		gr.phase = sent
		g.expect(gr, now)
	}
}

// Immediate handles Immediate Data of the client: the return of a grant.
func (g *Grantor) Immediate(conn *Conn, word [8]byte) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	if conn.over {
		return Effects{}
	}
	m, err := ParseImmediate(word, KindReturned)
	if err != nil {
		g.cut(conn, err)
		return g.effects()
	}
	gr := conn.find(m.Slot, m.Generation)
	if gr == nil || !gr.phase.out() {
		g.cut(conn, fmt.Errorf("%w: slot %d, generation %d", ErrNoRecall, m.Slot, m.Generation))
		return g.effects()
	}
	g.stats.Returned++
	conn.unanswered--
	g.end(gr)
	conn.vacate(gr)
	g.post(conn)
	return g.effects()
}

// RecallAll recalls all grants, and makes all Acquisitions stale, because the
// conditions for the grants no longer hold. No change waits for these recalls.
func (g *Grantor) RecallAll(now time.Duration) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range g.objects {
		for _, a := range o.asked {
			a.stale = true
		}
		for i := len(o.grants) - 1; i >= 0; i-- {
			if gr := o.grants[i]; !g.reclaim(gr) {
				g.recall(gr, now)
			}
		}
	}
	return g.effects()
}

// end says that nothing is served under gr any more. Changes no longer wait for
// gr.
func (g *Grantor) end(gr *grant) {
	if gr.over {
		return
	}
	gr.over = true
	o := gr.object
	o.grants = slices.DeleteFunc(o.grants, func(other *grant) bool { return other == gr })
	for _, ch := range gr.waiters {
		if ch.waits--; ch.waits == 0 {
			g.fx.Ready = append(g.fx.Ready, ch)
		}
	}
	gr.waiters = nil
	g.fx.Ended = append(g.fx.Ended, gr.lien)
	gr.conn.live--
	g.count(gr.conn.party, -1)
	g.countLien(gr, -1)
	g.forget(o)
}

// late handles a grant whose deadline has passed.
func (g *Grantor) late(gr *grant, now time.Duration) {
	switch c := gr.conn; {
	case gr.over:
	case c.over: // the client trusts nothing any more
		g.end(gr)
	case gr.phase == sent:
		g.stats.Late++
		c.late = now + penalty*g.cfg.Lease
		g.blame(gr, now)
		g.end(gr) // the slot remains taken until kind 2 arrives
	default:
		g.cut(c, ErrDeaf)
	}
}
