package oncrpc

import (
	"cmp"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/keepalive"
)

// What there is little of, memory and connections, is shared out between
// parties, so that none gets at all of it.

// A tcpParty is the peers of one address.
type tcpParty = fairshare.Party[tcpParts]

// tcpParts are a party's parts of the server's memory, or a connection's of these.
type tcpParts struct{ requests, replies, calls *fairshare.Part }

func (s *Server) parts() tcpParts {
	return tcpParts{s.requests.Part(), s.replies.Part(), s.waiting.Part()}
}

// ofConn returns the parts of one connection.
func (p *tcpParts) ofConn(s *Server) tcpParts {
	return tcpParts{p.requests.Part(int64(max(partOfConn, s.maxRecord()))), p.replies.Part(partOfConn), p.calls}
}

// Why connections had to go.
var (
	errReplaced = errors.New("oncrpc: too many connections, and this one makes room for another party's or a newer one")
	errStalled  = errors.New("oncrpc: peer holds memory that others wait for, and does not move")
)

// makeRoom ends a connection for one of a newcomer's, and reports whether there was
// one to end. The caller holds the lock.
func (s *Server) makeRoom(newcomer *tcpParty) bool {
	most := s.parties.Yields(newcomer)
	idle, own, busy := s.longest(most, true), s.longest(newcomer, true), (*tcpConn)(nil)
	if newcomer.Few() && s.leaving < fairshare.MaxLeaving(s.maxConns()) && Resumes(s.Handler) {
		busy = s.longest(most, false)
	}
	c := cmp.Or(idle, own, busy)
	if c == nil {
		return false
	}
	c.logEnd(errReplaced)
	s.totals.Replaced++
	s.leaving++
	c.leaving = true
	c.abort(errReplaced)
	return true
}

// longest returns the connection of a party, nil for none, that has been idle, or
// has had calls under way of which none was done, for longest.
func (s *Server) longest(p *tcpParty, idle bool) (c *tcpConn) {
	for k := range s.conns {
		if k.party == p && !k.leaving && k.idle() == idle && (c == nil || k.moved.Load() < c.moved.Load()) {
			c = k
		}
	}
	return c
}

// moves notes that something of a call has happened.
func (c *tcpConn) moves() { c.moved.Store(int64(time.Since(c.server.began))) }

// idle tells whether nothing of a call is there. One that is coming in at this
// moment may be lost with the connection, and comes again.
func (c *tcpConn) idle() bool {
	return c.underWay.Load() == 0 && c.reading.Err() == nil
}

// cutStalled ends the connections that have not moved since the last look, while calls
// wait for memory.
func (s *Server) cutStalled(round uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.isStalled(round) {
			c.logEnd(errStalled)
			s.totals.Stalled++
			c.abort(errStalled)
		}
	}
}

// A tcpWork is what cannot end unless the peer moves: records that memory is
// taken for, and writes.
type tcpWork struct{ begun, done atomic.Uint64 }

func (w *tcpWork) begin() { w.begun.Add(1) }
func (w *tcpWork) end()   { w.done.Add(1) }

// isStalled tells whether a connection had a record to take or replies to write at the
// look before, and has neither done any nor moved many octets since. The server's
// lock guards what was seen.
func (c *tcpConn) isStalled(round uint64) bool {
	in, out := keepalive.Traffic(c.nc)
	return c.seen.Stands(fairshare.Sight{
		Round: round, Posted: c.work.begun.Load(), Done: c.work.done.Load(), Octets: in + out,
	})
}
