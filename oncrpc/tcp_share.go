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

// A server divides its scarce resources, memory and connections, among parties, so that
// no party can use them all.

// A tcpParty is the set of peers with one address.
type tcpParty = fairshare.Party[tcpParts]

// tcpParts are a party's shares in the server's memory, or a connection's shares in
// those.
type tcpParts struct{ requests, replies, calls *fairshare.Part }

func (s *Server) newParts() tcpParts {
	return tcpParts{s.requestMemory.Part(), s.replyMemory.Part(), s.callMemory.Part()}
}

// connParts returns one connection's shares.
func (p *tcpParts) connParts(s *Server) tcpParts {
	return tcpParts{p.requests.Part(int64(max(connMemoryLimit, s.maxRecord()))), p.replies.Part(connMemoryLimit), p.calls}
}

// Causes for aborting connections.
var (
	errReplaced = errors.New("oncrpc: too many connections; this one was replaced by another party's or a newer one")
	errStalled  = errors.New("oncrpc: peer makes no progress and holds memory that other clients need")
)

// abortConnFor aborts a connection in favor of a new one from newcomer, and reports whether
// it found one. The caller must hold s.mu.
func (s *Server) abortConnFor(newcomer *tcpParty) bool {
	victim := s.parties.Yields(newcomer)
	idle, own, busy := s.leastRecentConn(victim, true), s.leastRecentConn(newcomer, true), (*tcpConn)(nil)
	if newcomer.Few() && s.leavingConns < fairshare.MaxLeaving(s.maxConns()) && Resumes(s.Handler) {
		busy = s.leastRecentConn(victim, false)
	}
	c := cmp.Or(idle, own, busy)
	if c == nil {
		return false
	}
	c.logEnd(errReplaced)
	s.totals.Replaced++
	s.leavingConns++
	c.leaving = true
	c.abort(errReplaced)
	return true
}

// leastRecentConn returns the party's connection that has made no progress for the
// longest time, or nil. It considers idle connections, or, if idle is false, those with
// calls in flight.
func (s *Server) leastRecentConn(p *tcpParty, idle bool) (c *tcpConn) {
	for k := range s.conns {
		if k.party == p && !k.leaving && k.isIdle() == idle && (c == nil || k.lastProgress.Load() < c.lastProgress.Load()) {
			c = k
		}
	}
	return c
}

// recordProgress records the time at which a call made progress.
func (c *tcpConn) recordProgress() { c.lastProgress.Store(int64(time.Since(c.server.startTime))) }

// isIdle reports whether no call is in flight. A call that arrives at this moment may be
// lost with the connection; the client retransmits it.
func (c *tcpConn) isIdle() bool {
	return c.inFlight.Load() == 0 && c.reading.Err() == nil
}

// abortStalled aborts the connections that have made no progress since the last round,
// while calls wait for memory.
func (s *Server) abortStalled(round uint64) {
	if !s.stallCheck.TryLock() { // the previous check is blocked by disks that do not respond
		return
	}
	defer s.stallCheck.Unlock()
	for _, c := range s.listConns() {
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

// listConns returns the open connections.
func (s *Server) listConns() []*tcpConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

// A progressCounter counts work in one direction that cannot finish unless the peer makes
// progress: records with reserved memory, or writes.
type progressCounter struct {
	started, finished atomic.Uint64
	lastSight         fairshare.Sight // guarded by Server.stallCheck
}

func (w *progressCounter) noteStart() { w.started.Add(1) }
func (w *progressCounter) noteEnd()   { w.finished.Add(1) }

// isStalled reports whether there was such work in the last round, and since then none
// has finished and the byte count size has hardly changed.
func (w *progressCounter) isStalled(round, size uint64) bool {
	return w.lastSight.Stands(fairshare.Sight{Round: round, Posted: w.started.Load(), Done: w.finished.Load(), Bytes: size})
}

// isStalled reports whether a connection makes no progress in one of its directions. Each
// is checked separately, so that a peer that does not accept its replies cannot hide that
// by further calls. A peer is not checked while a disk delays its replies. Only
// abortStalled may call isStalled.
func (c *tcpConn) isStalled(round uint64) bool {
	s, ok := c.socketState()
	if !ok || c.waitsForDisk.Load() {
		return false
	}
	records, writes := c.records.isStalled(round, s.In), c.writes.isStalled(round, s.Out)
	return records || writes
}
