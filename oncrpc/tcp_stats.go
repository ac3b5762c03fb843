package oncrpc

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// ServerStats is a snapshot of the state and the counters of a Server.
type ServerStats struct {
	Totals

	Requests, Replies Memory // of large requests and replies
	Waiting           int    // calls that wait for memory
}

// Memory is the used part of a bound, in bytes.
type Memory struct{ InUse, Limit int64 }

// Totals counts the present and past connections of a transport.
type Totals struct {
	Now      int    // present connections
	Total    uint64 // all accepted connections
	Refused  uint64 // closed for lack of room
	Replaced uint64 // cut to make room for another
	Stalled  uint64 // cut because they held memory that others waited for
}

// ConnStats is a snapshot of a connection over TCP.
type ConnStats struct {
	Peer     netip.AddrPort
	Since    time.Time
	Calls    uint64    // received calls
	UnderWay int       // unanswered calls
	In, Out  uint64    // bytes received, and bytes that the peer has acknowledged
	Security *Security // nil: in clear
}

// Stats returns the state and the counters of s.
func (s *Server) Stats() ServerStats {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	totals := s.totals
	totals.Now = len(s.conns)
	return ServerStats{
		Totals:   totals,
		Requests: Memory{s.requests.InUse(), s.requests.Limit()},
		Replies:  Memory{s.replies.InUse(), s.replies.Limit()},
		Waiting:  s.requests.Waiting(),
	}
}

// Connections returns the present connections, the oldest first.
func (s *Server) Connections() []ConnStats {
	s.init()
	present := s.present()
	all := make([]ConnStats, 0, len(present))
	for _, c := range present {
		in, out, _ := c.traffic()
		all = append(all, ConnStats{
			Peer: c.peer.Addr, Since: c.since, Calls: c.calls.Load(), UnderWay: int(c.underWay.Load()), In: in, Out: out, Security: c.security.Load(),
		})
	}
	slices.SortFunc(all, func(a, b ConnStats) int { return cmp.Or(a.Since.Compare(b.Since), a.Peer.Compare(b.Peer)) })
	return all
}
