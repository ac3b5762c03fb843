package delegation

import (
	"slices"
	"time"
)

// A Conn is one client's connection, as the Grantor knows it.
type Conn struct {
	// Owner is the caller's own.
	Owner any

	number     uint64 // no two connections have the same
	party      string
	words      Words
	window     int // recalls that may be unanswered
	unanswered int
	queue      []*grant // whose recalls have yet to be posted

	// By slot; LeaseWord has none. The generation is that of the word.
	slots       []*grant
	generations []uint32
	free        []uint32
	hand        int // see reclaimSome
	live        int // grants in force

	renewed uint64        // LeaseWord when it was last looked at
	moved   time.Duration // when it was first seen to hold that
	sampled time.Duration // when it is looked at next
	late    time.Duration // nothing is granted before this
	over    bool          // ended, or to be ended
}

// Attach begins a connection with its region of Config.Slots words. window is how
// many recalls may be unanswered: the lower of both ends' receives for Immediate
// Data. party names who the client is, as far as that can be told: what a client does on
// one connection counts for its next one, and for others of its party.
func (g *Grantor) Attach(words Words, window int, party string, owner any) *Conn {
	c := &Conn{Owner: owner, party: party, words: words, window: window, slots: make([]*grant, 1), generations: make([]uint32, 1)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.attached++
	c.number = g.attached
	g.conns = append(g.conns, c)
	return c
}

// Held returns how many grants of a connection are in force.
func (g *Grantor) Held(conn *Conn) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return conn.live
}

// write makes of a slot's word what next says. The client may change it at the
// same time.
func (c *Conn) write(slot uint32, next func(old uint64) Word) {
	for {
		old := c.words.Load(slot)
		w := next(old)
		if c.words.CompareAndSwap(slot, old, uint64(w)) {
			c.generations[slot] = w.Generation()
			return
		}
	}
}

// Disconnect says that the connection has ended, so that no add to LeaseWord is
// answered any more. It must follow a Cut too. When it returns, the Grantor does not
// touch the words any more. It may be called twice.
//
// byPeer says that it was the client who closed it, so that it knows. Else it may
// go on for as long as it trusts its lease, and changes wait for that. Where any does
// already, that is as if the client had let a deadline pass.
func (g *Grantor) Disconnect(conn *Conn, byPeer bool, now time.Duration) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.disconnect(conn, byPeer, true, now)
}

// Dismiss is Disconnect where the server has ended the connection for a reason of its
// own, such as want of room, and the client is not to blame.
func (g *Grantor) Dismiss(conn *Conn, now time.Duration) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.disconnect(conn, false, false, now)
}

func (g *Grantor) disconnect(conn *Conn, byPeer, blamed bool, now time.Duration) Effects {
	i := slices.Index(g.conns, conn)
	if i < 0 {
		return Effects{}
	}
	g.conns = slices.Delete(g.conns, i, i+1)
	conn.close()
	for _, gr := range conn.slots {
		switch {
		case gr == nil || gr.over:
		case byPeer:
			g.end(gr)
		default:
			if blamed && len(gr.waiters) > 0 {
				g.stats.Late++
				g.blame(gr, now)
			}
			due := now + trust(g.cfg.Lease)
			if gr.phase == sent {
				due = min(due, gr.due)
			}
			gr.due = due
			g.timers.add(timer{at: due, grant: gr})
		}
	}
	return g.effects()
}

// cut has a connection ended. Until Disconnect the client may still renew its lease,
// so what it holds is waited for as before, and then as long as it may trust that.
func (g *Grantor) cut(c *Conn, err error) {
	if !c.over {
		g.stats.Cut++
		g.fx.Cuts = append(g.fx.Cuts, Cut{c, err})
		c.close()
	}
}

// close ends all that the Grantor does on a connection.
func (c *Conn) close() {
	if c.over {
		return
	}
	c.over, c.queue, c.words = true, nil, nil
	for _, gr := range c.slots {
		if gr != nil && gr.phase != sent {
			gr.due = 0 // nothing is due before Disconnect
		}
	}
}
