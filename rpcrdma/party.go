package rpcrdma

import (
	"errors"
	"net/netip"

	"golang.org/x/sync/semaphore"

	"github.com/nfsrdma/nfsrdma/internal/origin"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A party is the peers of one address. What there is little of is shared out
// between parties, so that none gets at all of it by more connections. The
// server's lock guards conns.
type party struct {
	name   netip.Prefix
	conns  int                 // those that it has, or is about to have
	memory *semaphore.Weighted // its share of Server.memory
}

// party returns the party of a peer, with one connection more. The caller holds
// the lock.
func (s *Server) party(req rdma.ConnRequest) *party {
	name := origin.Of(req.RemoteAddr())
	p := s.parties[name]
	if p == nil {
		p = &party{name: name, memory: semaphore.NewWeighted(s.cfg.share())}
		s.parties[name] = p
	}
	p.conns++
	return p
}

// leave notes that a connection is gone. The caller holds the server's lock.
func (p *party) leave(s *Server) {
	if p.conns--; p.conns == 0 {
		delete(s.parties, p.name)
	}
}

// share returns how much memory for chunks a party may have, in octets.
func (c *config) share() int64 { return max(c.maxMemory/2, c.largestCall()) }

// errReplaced is why a connection had to go.
var errReplaced = errors.New("rpcrdma: too many connections, and none under way on this one")

// makeRoom ends a connection with no calls, of the party that has most, for one
// of a newcomer's, and reports whether there was such a one. The caller holds the
// lock.
func (s *Server) makeRoom(newcomer *party) bool {
	most := newcomer
	for _, p := range s.parties {
		if p.conns > most.conns {
			most = p
		}
	}
	if most == newcomer { // one of whose connections is to come
		return false
	}
	for c := range s.conns {
		if c.party == most && c.retire() {
			c.abort(errReplaced)
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
