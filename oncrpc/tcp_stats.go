package oncrpc

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// ServerStats is a snapshot of the state and a Server's counters.
type ServerStats struct {
	Totals

	Requests, Replies Memory // for large requests and replies
	Waiting           int    // calls that wait for memory
}

// Memory is the memory in use and its limit, in bytes.
type Memory struct{ InUse, Limit int64 }

// Totals counts a transport's current and past connections.
type Totals struct {
	Now      int    // current connections
	Total    uint64 // all accepted connections
	Refused  uint64 // closed because MaxConns was reached
	Replaced uint64 // aborted in favor of another
	Stalled  uint64 // aborted because they held memory that others waited for
}

// ConnStats is a snapshot of a TCP connection.
type ConnStats struct {
	Peer     netip.AddrPort
	Since    time.Time
	Calls    uint64    // received calls
	InFlight int       // unanswered calls
	In, Out  uint64    // bytes received, and bytes that the peer has acknowledged
	Security *Security // nil: unencrypted
}

// Stats returns s's state and counters.
func (s *Server) Stats() ServerStats {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	totals := s.totals
	totals.Now = len(s.conns)
	return ServerStats{
		Totals:   totals,
		Requests: Memory{s.requestMemory.InUse(), s.requestMemory.Limit()},
		Replies:  Memory{s.replyMemory.InUse(), s.replyMemory.Limit()},
		Waiting:  s.requestMemory.Waiting(),
	}
}

// Connections returns the open connections, the oldest first.
func (s *Server) Connections() []ConnStats {
	s.init()
	present := s.listConns()
	all := make([]ConnStats, 0, len(present))
	for _, c := range present {
		state, _ := c.socketState()
		all = append(all, ConnStats{
			Peer: c.peer.Addr, Since: c.since, Calls: c.calls.Load(), InFlight: int(c.inFlight.Load()), In: state.In, Out: state.Out, Security: c.security.Load(),
		})
	}
	slices.SortFunc(all, func(a, b ConnStats) int { return cmp.Or(a.Since.Compare(b.Since), a.Peer.Compare(b.Peer)) })
	return all
}
