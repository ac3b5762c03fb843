package rpcrdma

import (
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// cutStalled ends the connections that have not moved since the last round,
// while calls wait for memory. If there are none, and a call has waited for
// pullTime, cutStalled ends the connection whose RDMA Reads take longest: a few
// peers that move just enough must not keep all memory.
func (s *Server) cutStalled(round uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stood := false
	for c := range s.conns {
		if c.isStalled(round) {
			c.abort(errStalled)
			s.totals.Stalled++
			stood = true
		}
	}
	if stood || s.memory.Waited() < pullTime {
		return
	}
	if c := s.slowest(time.Now().Add(-pullTime)); c != nil {
		c.abort(errSlow)
		s.totals.Stalled++
	}
}

// slowest returns the connection with the oldest RDMA Reads among those posted
// by limit, or nil.
func (s *Server) slowest(limit time.Time) (slowest *conn) {
	for c := range s.conns {
		if since, ok := c.pullsSince(); ok && !since.After(limit) {
			slowest, limit = c, since
		}
	}
	return slowest
}

// pullsSince returns when the connection's oldest unfinished RDMA Reads were
// posted. ok is false if there are none. RDMA Reads never wait for a handler,
// so that other calls of the connection do not excuse them.
func (c *conn) pullsSince() (since time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.isReady() || c.rc == nil {
		return time.Time{}, false
	}
	return c.watch.pulls.oldest()
}

// isStalled reports whether a connection had posted work at the previous round,
// and has neither completed any nor moved many bytes since.
func (c *conn) isStalled(round uint64) bool {
	if !c.isReady() || c.rc == nil {
		return false
	}
	now := fairshare.Sight{Round: round}
	if m, ok := c.rc.(rdma.ByteCounter); ok {
		in, out := m.Traffic()
		now.Bytes = in + out
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now.Posted, now.Done = c.watch.posted, c.watch.done
	return c.seen.Stands(now)
}
