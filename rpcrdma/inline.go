package rpcrdma

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A call's memory other than for chunks is small, and allocated before anything
// is known about the call. It is counted, and if the total is too large,
// connections are closed.

// errOverLimit is the cause for closing a connection that holds too much
// memory.
var errOverLimit = fmt.Errorf("%w: messages use too much memory, and this peer has the most", ErrBound)

// countMessageLocked counts a new call's memory: its message, an inline reply, and the call itself.
// The caller holds the connection's lock. It reports whether the total is too large.
func (cl *call) countMessageLocked(msg *buf.Buf) (tooMuch bool) {
	return cl.addInlineLocked(callSize + int64(cap(msg.B)) + int64(cl.conn.maxSend))
}

// countLists counts the memory for long chunk lists.
func (cl *call) countLists() {
	n := cl.hdr.Lists.Len()
	if n <= shortLists {
		return
	}
	c := cl.conn
	c.mu.Lock()
	cl.longLists = true
	tooMuch := cl.addInlineLocked(int64(listGrowth * n))
	c.mu.Unlock()
	if tooMuch {
		c.srv.endLargest()
	}
}

func (cl *call) addInlineLocked(n int64) (tooMuch bool) {
	c := cl.conn
	if c.overLimit {
		return false
	}
	cl.inlineBytes += n
	c.inlineBytes += n
	return c.srv.inlineBytes.Add(n) > c.srv.cfg.maxInline
}

// removeInlineLocked removes a completed call from the count.
func (cl *call) removeInlineLocked() {
	c := cl.conn
	if !c.overLimit {
		c.inlineBytes -= cl.inlineBytes
		c.srv.inlineBytes.Add(-cl.inlineBytes)
	}
}

// updateFairShare computes each connection's fair share of MaxInline. The caller holds
// the server's lock.
func (s *Server) updateFairShare() {
	s.fairShare.Store(s.cfg.maxInline / int64(max(1, len(s.conns))))
}

// endLargest aborts the largest connection of the party that holds most memory. That connection's
// memory is no longer counted.
func (s *Server) endLargest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inlineBytes.Load() <= s.cfg.maxInline {
		return // another goroutine has aborted a connection
	}
	taken := make(map[*party]int64)
	largest := make(map[*party]*conn)
	var most *party
	for c := range s.conns {
		p, n := c.party, c.inlineUse()
		taken[p] += n
		if l := largest[p]; l == nil || n > l.inlineUse() {
			largest[p] = c
		}
		if most == nil || taken[p] > taken[most] {
			most = p
		}
	}
	if c := largest[most]; c != nil {
		c.markOverLimit()
		c.abort(errOverLimit)
	}
}

func (c *conn) inlineUse() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inlineBytes
}

// markOverLimit stops the connection from accepting calls, and removes its current calls from the
// count.
func (c *conn) markOverLimit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.srv.inlineBytes.Add(-c.inlineBytes)
	c.inlineBytes, c.overLimit = 0, true
}
