package rpcrdma

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/buf"
)

// What a call takes beside the memory for chunks is small, and lent before
// anything is known of it. It is counted, and where that is too much in all,
// connections go.

// errOverLimit is why a connection had to go.
var errOverLimit = fmt.Errorf("%w: too many octets of messages are held, and this peer has most of them", ErrBound)

// takeLocked counts what a new call takes, with the connection's lock held: its
// message, an inline reply, and itself. It reports whether that is too much.
func (cl *call) takeLocked(msg *buf.Buf) (tooMuch bool) {
	return cl.addLocked(callSize + int64(cap(msg.B)) + int64(cl.conn.longest))
}

// takeLists counts what long chunk lists take.
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

// giveLocked takes a call that has ended out of the count.
func (cl *call) giveLocked() {
	c := cl.conn
	if !c.overLimit {
		c.inline -= cl.inline
		c.srv.inline.Add(-cl.inline)
	}
}

// shareOut notes each connection's fair part of what may be taken. The caller
// holds the server's lock.
func (s *Server) shareOut() {
	s.fair.Store(s.cfg.maxInline / int64(max(1, len(s.conns))))
}

// shed ends the connection that takes most of those of the party that does. What
// it has counts as gone from then on.
func (s *Server) shed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inline.Load() <= s.cfg.maxInline {
		return // somebody else has been here
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

// condemn lets no more calls in, and takes those that there are out of the count.
func (c *conn) condemn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.srv.inline.Add(-c.inline)
	c.inline, c.overLimit = 0, true
}
