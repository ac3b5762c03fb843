package rpcrdma

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/buf"
)

// A call's memory besides the memory for chunks is small, and lent before
// anything is known of the call. It is counted, and if the total is too much,
// connections are ended.

// errOverLimit is the cause of ending a connection that holds too much.
var errOverLimit = fmt.Errorf("%w: messages use too much memory, and this peer has the most", ErrBound)

// takeLocked counts the memory of a new call: its message, an inline reply, and
// the call itself. The caller holds the connection's lock. takeLocked reports
// whether the total is too much.
func (cl *call) takeLocked(msg *buf.Buf) (tooMuch bool) {
	return cl.addLocked(callSize + int64(cap(msg.B)) + int64(cl.conn.longest))
}

// takeLists counts the memory of long chunk lists.
func (cl *call) takeLists() {
	n := cl.hdr.Lists.Len()
	if n <= shortLists {
		return
	}
	c := cl.conn
	c.mu.Lock()
	cl.long = true
	tooMuch := cl.addLocked(int64(listGrowth * n))
	c.mu.Unlock()
	if tooMuch {
		c.srv.shed()
	}
}

func (cl *call) addLocked(n int64) (tooMuch bool) {
	c := cl.conn
	if c.overLimit {
		return false
	}
	cl.inline += n
	c.inline += n
	return c.srv.inline.Add(n) > c.srv.cfg.maxInline
}

// giveLocked removes an ended call from the count.
func (cl *call) giveLocked() {
	c := cl.conn
	if !c.overLimit {
		c.inline -= cl.inline
		c.srv.inline.Add(-cl.inline)
	}
}

// shareOut computes each connection's fair share of MaxInline. The caller holds
// the server's lock.
func (s *Server) shareOut() {
	s.fair.Store(s.cfg.maxInline / int64(max(1, len(s.conns))))
}

// shed ends the largest connection of the party that holds most. The memory of
// that connection is no longer counted from then on.
func (s *Server) shed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inline.Load() <= s.cfg.maxInline {
		return // another goroutine has shed a connection
	}
	taken := make(map[*party]int64)
	largest := make(map[*party]*conn)
	var most *party
	for c := range s.conns {
		p, n := c.party, c.taken()
		taken[p] += n
		if l := largest[p]; l == nil || n > l.taken() {
			largest[p] = c
		}
		if most == nil || taken[p] > taken[most] {
			most = p
		}
	}
	if c := largest[most]; c != nil {
		c.condemn()
		c.abort(errOverLimit)
	}
}

func (c *conn) taken() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inline
}

// condemn stops the connection from taking calls, and removes its present calls
// from the count.
func (c *conn) condemn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.srv.inline.Add(-c.inline)
	c.inline, c.overLimit = 0, true
}
