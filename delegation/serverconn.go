package delegation

import (
	"slices"
	"time"
)

// A Conn is one client's connection in the Grantor.
type Conn struct {
	// Owner is the caller's own.
	Owner any

	number     uint64 // unique per connection
	party      string
	words      Words
	window     int // how many recalls may be unanswered
	unanswered int
	queue      []*grant // grants whose recalls are not yet posted

	// By slot; LeaseWord's entries are unused. The generation is the word's.
	slots       []*grant
	generations []uint32
	free        []uint32
	hand        int // see reclaimSome
	live        int // grants in force
	liens       int // of these

	renewed uint64        // LeaseWord at the last check
	moved   time.Duration // when LeaseWord was first seen with that value
	sampled time.Duration // time of the next check
	late    time.Duration // nothing is granted before this
	over    bool          // ended, or cut
}

// Attach begins a connection with a region of Config.Slots words. window is how
// many recalls may be unanswered: the lower of both sides' numbers of receives
// for Immediate Data. party identifies the client as well as possible. A
// client's misconduct on one connection counts against its later connections,
// and against others of its party.
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

// write replaces a slot's word by next(old). The client may change the word
// concurrently.
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

// Disconnect says that the connection has ended, so no add to LeaseWord is
// answered any more. Disconnect must follow a Cut too. After it returns, the
// Grantor does not touch the words. Disconnect may be called twice.
//
// byPeer says that the client closed the connection, and so knows of the end.
// Otherwise the client may serve from its cache as long as it trusts its lease,
// and changes wait for that time. If a change is waiting already, the client
// counts as late.
func (g *Grantor) Disconnect(conn *Conn, byPeer bool, now time.Duration) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.disconnect(conn, byPeer, true, now)
}

// Dismiss is Disconnect for a connection that the server ended for its own
// reasons, such as lack of room. The client is not to blame.
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

// cut orders the end of a connection. Until Disconnect the client may still
// renew its lease. Changes therefore wait for its grants as before, and after
// Disconnect as long as the client may trust its lease.
func (g *Grantor) cut(c *Conn, err error) {
	if !c.over {
		g.stats.Cut++
		g.fx.Cuts = append(g.fx.Cuts, Cut{c, err})
		c.close()
	}
}

// close ends the Grantor's activity on a connection.
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
