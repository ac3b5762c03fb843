package delegation

import (
	"slices"
	"time"
)

// A Conn is the Grantor's state for one client's connection.
type Conn struct {
	// Owner is for the caller.
	Owner any

	number             uint64 // unique per connection
	party              string
	words              Words
	window             int // maximum number of outstanding recalls
	outstandingRecalls int
	recallQueue        []*grant                // grants whose recalls are not yet posted
	held               map[string]*Acquisition // by key: grants in force, and what is being acquired

	// These slices are indexed by slot; LeaseWord's entries are unused. The
	// generation is the word's.
	slots       []*grant
	generations []uint32
	freeSlots   []uint32
	scanPos     int // slot at which scans continue
	grantCount  int // number of grants in force
	lienCount   int // number of those with a Lien

	lastLeaseWord uint64        // LeaseWord at the last check
	leaseMovedAt  time.Duration // when LeaseWord was first seen with that value
	nextSample    time.Duration // time of the next check
	timerAt       timerPosition // for nextSample
	lateUntil     time.Duration // nothing is granted before this
	ended         bool          // closed, or cut
}

// Attach adds a connection whose region has Config.Slots words. window is the
// maximum number of outstanding recalls: the lower of both sides' numbers of
// receives for Immediate Data. party identifies the client as well as possible.
// A client's misconduct on one connection affects its later connections, and
// other clients in its party.
func (g *Grantor) Attach(words Words, window int, party string, owner any) *Conn {
	c := &Conn{Owner: owner, party: party, words: words, window: window, held: make(map[string]*Acquisition), slots: make([]*grant, 1), generations: make([]uint32, 1)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.connCount++
	c.number = g.connCount
	g.conns = append(g.conns, c)
	return c
}

// Held returns the number of grants in force on a connection.
func (g *Grantor) Held(conn *Conn) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return conn.grantCount
}

// updateWord replaces a slot's word with next(old). The client may change the
// word concurrently.
func (c *Conn) updateWord(slot uint32, next func(old uint64) slotWord) {
	for {
		old := c.words.Load(slot)
		w := next(old)
		if c.words.CompareAndSwap(slot, old, uint64(w)) {
			c.generations[slot] = w.generation()
			return
		}
	}
}

// Disconnect must be called when the connection has closed, so that no further
// add to LeaseWord completes. It must be called after a Cut too. After it
// returns, the Grantor does not access the words. Disconnect may be called
// twice.
//
// byPeer says that the client closed the connection, and so knows that it is
// closed. Otherwise the client may serve from its cache while it trusts its
// lease, and changes wait for that time. If a change is already waiting, the
// client counts as late.
func (g *Grantor) Disconnect(conn *Conn, byPeer bool, now time.Duration) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.disconnectConn(conn, byPeer, true, now)
}

// Dismiss must be called instead of Disconnect for a connection that the server
// closed for its own reasons, such as lack of memory. The client is not
// penalized.
func (g *Grantor) Dismiss(conn *Conn, now time.Duration) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.disconnectConn(conn, false, false, now)
}

// disconnectConn removes a connection. If blamed is set, a client that delays changes is penalized.
func (g *Grantor) disconnectConn(conn *Conn, byPeer, blamed bool, now time.Duration) Effects {
	i := slices.Index(g.conns, conn)
	if i < 0 {
		return Effects{}
	}
	g.conns = slices.Delete(g.conns, i, i+1)
	conn.closeConn()
	g.timers.removeTimer(conn.timerAt)
	for _, gr := range conn.slots {
		switch {
		case gr == nil || gr.ended:
		case byPeer:
			g.endGrant(gr)
		default:
			if blamed && gr.object.IsAwaited() {
				g.stats.Late++
				g.penalizeLate(gr, now)
			}
			due := now + trustTime(g.cfg.Lease)
			if gr.phase == phaseSent {
				due = min(due, gr.deadline)
			}
			gr.deadline = due
			g.timers.setTimer(timer{at: due, grant: gr})
		}
	}
	return g.takeEffects()
}

// cutConn requests that a connection be closed. Until Disconnect the client may
// still renew its lease. Changes therefore wait for its grants as before, and
// after Disconnect while the client may trust its lease.
func (g *Grantor) cutConn(c *Conn, err error) {
	if !c.ended {
		g.stats.Cut++
		g.pending.Cuts = append(g.pending.Cuts, Cut{c, err})
		c.closeConn()
	}
}

// closeConn stops the Grantor's activity on a connection.
func (c *Conn) closeConn() {
	if c.ended {
		return
	}
	c.ended, c.recallQueue, c.words = true, nil, nil
	for _, gr := range c.slots {
		if gr != nil && gr.phase != phaseSent {
			gr.deadline = 0 // nothing is due before Disconnect
		}
	}
}
