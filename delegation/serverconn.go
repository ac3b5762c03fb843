package delegation

import (
	"slices"
	"time"
)

// A Conn is one client's connection, as the Grantor knows it.
type Conn struct {
	// Owner is the caller's own.
	Owner any

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
// Data.
func (g *Grantor) Attach(words Words, window int, owner any) *Conn {
	c := &Conn{Owner: owner, words: words, window: window, slots: make([]*grant, 1), generations: make([]uint32, 1)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns = append(g.conns, c)
	return c
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

// Disconnect says that the connection has ended. When it returns, the Grantor does
// not touch the words any more.
//
// byPeer says that it was the client who closed it, so that it knows. Else it may
// go on for as long as it trusts its lease, and changes wait for that.
func (g *Grantor) Disconnect(conn *Conn, byPeer bool, now time.Duration) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.close(conn, now)
	if byPeer {
		for _, gr := range conn.slots {
			if gr != nil {
				g.end(gr)
			}
		}
	}
	g.conns = slices.DeleteFunc(g.conns, func(c *Conn) bool { return c == conn })
	return g.take()
}

// cut ends a connection from here.
func (g *Grantor) cut(c *Conn, err error, now time.Duration) {
	if c.over {
		return
	}
	g.stats.Cut++
	g.fx.Cuts = append(g.fx.Cuts, Cut{c, err})
	g.close(c, now)
}

// close ends what can be ended of a connection before its client is sure to know.
// No add to LeaseWord is answered from now on, so trust ends within its time.
func (g *Grantor) close(c *Conn, now time.Duration) {
	if c.over {
		return
	}
	c.over, c.queue, c.words = true, nil, nil
	for _, gr := range c.slots {
		if gr == nil || gr.over {
			continue
		}
		due := now + trust(g.cfg.Lease)
		if gr.phase == sent {
			due = min(due, gr.due)
		}
		gr.due = due
		g.timers.add(timer{at: gr.due, grant: gr})
	}
}
