package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/internal/share"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// press ends the connections that have not moved since the last look, while calls
// wait for memory.
func (s *Server) press(round uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.stands(round) {
			c.abort(errStalled)
			s.totals.Stalled++
		}
	}
}

// stands tells whether a connection had posted work at the look before, and has
// neither completed any nor moved many octets since.
func (c *conn) stands(round uint64) bool {
	if !c.isReady() || c.rc == nil {
		return false
	}
	now := share.Sight{Round: round}
	if m, ok := c.rc.(rdma.Meter); ok {
		in, out := m.Traffic()
		now.Octets = in + out
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now.Posted, now.Done = c.watch.posted, c.watch.done
	return c.seen.Stands(now)
}
