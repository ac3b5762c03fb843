package rpcrdma

import (
	"maps"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// cutStalled ends the connections that have not moved since the last round,
// while calls wait for memory. If there are none, and a call has waited for
// pullTime, cutStalled ends the connection whose RDMA Reads take longest: a few
// peers that move just enough must not keep all memory.
func (s *Server) cutStalled(round uint64) {
	if !s.looking.TryLock() { // the look before has met many disks that do not answer
		return
	}
	defer s.looking.Unlock()
	stood := false
	judged := slices.DeleteFunc(s.present(), (*conn).awaitsSource)
	for _, c := range judged {
		if c.isStalled(round) && s.cut(c, errStalled) {
			stood = true
		}
	}
	if stood || s.memory.Waited() < pullTime {
		return
	}
	if c := slowest(judged, time.Now().Add(-pullTime)); c != nil {
		s.cut(c, errSlow)
	}
}

// present returns the present connections.
func (s *Server) present() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

// cut ends c, and reports whether c was present.
func (s *Server) cut(c *conn, cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, here := s.conns[c]; !here {
		return false
	}
	c.abort(cause)
	s.totals.Stalled++
	return true
}

// awaitsSource reports whether a disk holds up the data of replies. Then the peer is
// not judged.
func (c *conn) awaitsSource() bool {
	if !c.isReady() {
		return false
	}
	w, ok := c.rc.(rdma.SourceWaiter)
	return ok && w.AwaitsSource()
}

// slowest returns the connection with the oldest RDMA Reads among those posted
// by limit, or nil.
func slowest(all []*conn, limit time.Time) (slowest *conn) {
	for _, c := range all {
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
