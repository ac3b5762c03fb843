package rpcrdma

import (
	"maps"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// abortStalled aborts the connections that made no progress since the last
// round, while calls wait for memory. If there are none, and a call has waited
// for pullTime, abortStalled aborts the connection whose RDMA Reads take
// longest: a few peers that make just enough progress must not hold all memory.
func (s *Server) abortStalled(round uint64) {
	if !s.stallCheckMu.TryLock() { // the previous check is blocked by disks that do not respond
		return
	}
	defer s.stallCheckMu.Unlock()
	anyStalled := false
	judged := slices.DeleteFunc(s.currentConns(), (*conn).awaitsSource)
	for _, c := range judged {
		if c.isStalled(round) && s.abortConn(c, errStalled) {
			anyStalled = true
		}
	}
	if anyStalled || s.memory.Waited() < pullTime {
		return
	}
	if c := slowestConn(judged, time.Now().Add(-pullTime)); c != nil {
		s.abortConn(c, errSlow)
	}
}

// currentConns returns the current connections.
func (s *Server) currentConns() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

// abortConn aborts c, and reports whether c was still registered.
func (s *Server) abortConn(c *conn, cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, here := s.conns[c]; !here {
		return false
	}
	c.abort(cause)
	s.totals.Stalled++
	return true
}

// awaitsSource reports whether a disk delays reply data. The peer is not at fault then.
func (c *conn) awaitsSource() bool {
	if !c.isReady() {
		return false
	}
	w, ok := c.rc.(rdma.SourceWaiter)
	return ok && w.AwaitsSource()
}

// slowestConn returns the connection with the oldest RDMA Reads among those posted
// by limit, or nil.
func slowestConn(all []*conn, limit time.Time) (slowest *conn) {
	for _, c := range all {
		if since, ok := c.oldestPull(); ok && !since.After(limit) {
			slowest, limit = c, since
		}
	}
	return slowest
}

// oldestPull returns when the connection's oldest unfinished RDMA Reads were
// posted. ok is false if there are none. RDMA Reads never wait for a handler,
// so progress on the connection's other calls does not excuse them.
func (c *conn) oldestPull() (since time.Time, ok bool) {
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
	return c.lastSight.Stands(now)
}
