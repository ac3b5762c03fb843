package rpcrdma

import (
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A party is all peers of one address, with its part of the server's memory.
type party = fairshare.Party[parts]

// share returns how much memory for chunks a party may have, in bytes.
func (c *config) share() int64 { return max(c.maxMemory/2, c.largestCall()) }

// ErrBound is the cause of ending a connection that did nothing wrong: there
// were too many connections, or it took too much, by the bounds of the Server.
var ErrBound = errors.New("rpcrdma: beyond a bound of the server")

var errReplaced = fmt.Errorf("%w: too many connections: this one is closed for one of another party, or a newer one", ErrBound)

// makeRoom ends a connection in favour of one of newcomer's, and reports whether
// it did. The caller holds the lock.
func (s *Server) makeRoom(newcomer *party) bool {
	most := s.parties.Yields(newcomer)
	evict := s.retire(most, true) || s.retire(newcomer, true)
	if !evict && newcomer.Few() && s.leaving < fairshare.MaxLeaving(s.cfg.maxConns) && oncrpc.Resumes(s.Handler) {
		evict = s.retire(most, false)
	}
	return evict
}

// retire ends the connection of p that has been idle longest or, with idle
// false, whose calls under way have gone longest without any of them ending. It
// reports whether there was such a connection.
func (s *Server) retire(p *party, idle bool) bool {
	for {
		var oldest *conn
		var since time.Duration
		for c := range s.conns {
			if c.party != p || c.leaving {
				continue
			}
			if at, ok := c.unmoved(idle); ok && (oldest == nil || at < since) {
				oldest, since = c, at
			}
		}
		if oldest == nil {
			return false
		}
		if oldest.retire(idle) {
			oldest.leaving = true
			s.leaving++
			s.totals.Replaced++
			oldest.abort(errReplaced)
			return true
		}
	}
}

// unmoved returns the time of the last progress (conn.moved), and whether the
// connection could be retired.
func (c *conn) unmoved(idle bool) (since time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved, c.mayRetireLocked(idle)
}

// retire stops the connection from taking calls, and reports true, if the
// connection still is idle or, with idle false, still has calls under way.
func (c *conn) retire(idle bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ok := c.mayRetireLocked(idle)
	c.draining = c.draining || ok
	return ok
}

func (c *conn) mayRetireLocked(idle bool) bool {
	return (c.underWay == 0) == idle && !c.draining && !c.closed && c.isReady()
}
