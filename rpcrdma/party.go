package rpcrdma

import (
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A party is all peers that share a client address, with its share of the
// server's memory.
type party = fairshare.Party[partyShares]

// partyShare returns the maximum memory for chunks per party, in bytes.
func (c *config) partyShare() int64 { return max(c.maxMemory/2, c.largestCall()) }

// ErrBound is the cause for closing a connection whose peer did nothing wrong:
// there were too many connections, or it used too much memory, by the Server's
// limits.
var ErrBound = errors.New("rpcrdma: server limit exceeded")

var errReplaced = fmt.Errorf("%w: too many connections: this one is closed for one of another party, or a newer one", ErrBound)

// evictConnFor evicts a connection in favor of a new one from newcomer, and reports
// whether it did. The caller holds the lock.
func (s *Server) evictConnFor(newcomer *party) bool {
	victim := s.parties.Yields(newcomer)
	evict := s.retireConn(victim, true) || s.retireConn(newcomer, true)
	if !evict && newcomer.Few() && s.evictedCount < fairshare.MaxLeaving(s.cfg.maxConns) && oncrpc.Resumes(s.Handler) {
		evict = s.retireConn(victim, false)
	}
	return evict
}

// retireConn evicts p's connection that has been idle longest or, with idle
// false, whose calls in flight have gone longest without a completion. It
// reports whether there was such a connection.
func (s *Server) retireConn(p *party, idle bool) bool {
	for {
		var oldest *conn
		var since time.Duration
		for c := range s.conns {
			if c.party != p || c.evicted {
				continue
			}
			if at, ok := c.retireInfo(idle); ok && (oldest == nil || at < since) {
				oldest, since = c, at
			}
		}
		if oldest == nil {
			return false
		}
		if oldest.tryRetire(idle) {
			oldest.evicted = true
			s.evictedCount++
			s.totals.Replaced++
			oldest.abort(errReplaced)
			return true
		}
	}
}

// retireInfo returns the time of the last progress, and whether the connection
// could be retired.
func (c *conn) retireInfo(idle bool) (since time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastProgress, c.mayRetireLocked(idle)
}

// tryRetire stops the connection from accepting calls, and returns true, if the
// connection is still idle or, with idle false, still has calls in flight.
func (c *conn) tryRetire(idle bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ok := c.mayRetireLocked(idle)
	c.draining = c.draining || ok
	return ok
}

func (c *conn) mayRetireLocked(idle bool) bool {
	return (c.inFlight == 0) == idle && !c.draining && !c.closed && c.isReady()
}
