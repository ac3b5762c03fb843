package rpcrdma

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/internal/share"
)

// A party is the peers of one address, and its part of the server's memory.
type party = share.Party[parts]

// share returns how much memory for chunks a party may have, in octets.
func (c *config) share() int64 { return max(c.maxMemory/2, c.largestCall()) }

// errReplaced is why a connection had to go.
var errReplaced = errors.New("rpcrdma: too many connections, and none under way on this one")

// makeRoom ends a connection with no calls, of the party that has most, for one
// of a newcomer's, and reports whether there was such a one. The caller holds the
// lock.
func (s *Server) makeRoom(newcomer *party) bool {
	from := s.parties.Yields(newcomer)
	if from == nil {
		return false
	}
	for c := range s.conns {
		if c.party == from && c.retire() {
			c.abort(errReplaced)
			s.totals.Replaced++
			return true
		}
	}
	return false
}

// retire keeps an idle connection from taking calls, and tells whether it was
// one.
func (c *conn) retire() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := c.underWay == 0 && !c.draining && !c.closed && c.isReady()
	c.draining = c.draining || idle
	return idle
}
