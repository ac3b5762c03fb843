package oncrpc

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// A server shares out its scarce resources, memory and connections, between
// parties, so that no party gets all of them.

// A tcpParty is the set of peers of one address.
type tcpParty = fairshare.Party[tcpParts]

// tcpParts are a party's parts of the server's memory, or a connection's parts
// of these.
type tcpParts struct{ requests, replies, calls *fairshare.Part }

func (s *Server) parts() tcpParts {
	return tcpParts{s.requests.Part(), s.replies.Part(), s.waiting.Part()}
}

// ofConn returns the parts of one connection.
func (p *tcpParts) ofConn(s *Server) tcpParts {
	return tcpParts{p.requests.Part(int64(max(partOfConn, s.maxRecord()))), p.replies.Part(partOfConn), p.calls}
}

// Reasons for which connections are cut.
var (
	errReplaced = errors.New("oncrpc: too many connections, and this one makes room for another party's or a newer one")
	errStalled  = errors.New("oncrpc: peer makes no progress and holds memory that other clients need")
)

// makeRoom cuts a connection to make room for a connection of newcomer, and
// reports whether it found one. The caller must hold s.mu.
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

// longest returns the connection of a party that has not moved for longest, or
// nil. It considers connections that are idle, or with idle false, connections
// with calls under way.
func (s *Server) longest(p *tcpParty, idle bool) (c *tcpConn) {
	for k := range s.conns {
		if k.party == p && !k.leaving && k.idle() == idle && (c == nil || k.moved.Load() < c.moved.Load()) {
			c = k
		}
	}
	return c
}

// moves records the time of progress of a call.
func (c *tcpConn) moves() { c.moved.Store(int64(time.Since(c.server.began))) }

// idle reports whether no call is under way. A call that arrives at this moment
// may be lost with the connection; the client sends it again.
func (c *tcpConn) idle() bool {
	return c.underWay.Load() == 0 && c.reading.Err() == nil
}

// cutStalled cuts the connections that have not moved since the last round,
// while calls wait for memory.
func (s *Server) cutStalled(round uint64) {
	if !s.looking.TryLock() { // the look before has met many disks that do not answer
		return
	}
	defer s.looking.Unlock()
	for _, c := range s.present() {
		if !c.isStalled(round) {
			continue
		}
		s.mu.Lock()
		if _, here := s.conns[c]; here {
			c.logEnd(errStalled)
			s.totals.Stalled++
			c.abort(errStalled)
		}
		s.mu.Unlock()
	}
}

// present returns the present connections.
func (s *Server) present() []*tcpConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

// A tcpWork counts work in one direction that cannot end unless the peer moves:
// records with reserved memory, or writes.
type tcpWork struct {
	begun, done atomic.Uint64
	seen        fairshare.Sight // guarded by Server.looking
}

func (w *tcpWork) begin() { w.begun.Add(1) }
func (w *tcpWork) end()   { w.done.Add(1) }

// stalled reports whether there was such work in the last round, and since then
// none has ended and hardly any of the given bytes have moved.
func (w *tcpWork) stalled(round, size uint64) bool {
	return w.seen.Stands(fairshare.Sight{Round: round, Posted: w.begun.Load(), Done: w.done.Load(), Bytes: size})
}

// isStalled reports whether a connection does not move in one of its
// directions. Each is judged by itself, so that a peer which does not take its
// replies cannot excuse that by further calls. A peer is not judged while a disk
// holds up its replies. Only cutStalled may call isStalled.
func (c *tcpConn) isStalled(round uint64) bool {
	in, out, ok := c.traffic()
	if !ok {
		return false
	}
	records, writes := c.records.stalled(round, in), c.writes.stalled(round, out)
	return records || writes
}
