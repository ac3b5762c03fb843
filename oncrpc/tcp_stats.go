package oncrpc

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/keepalive"
)

// ServerStats is what a Server has, and has done, at one moment.
type ServerStats struct {
	Totals

	Requests, Replies Memory // of large ones
	Waiting           int    // calls that wait for it
}

// Memory is how much of a bound is taken, in octets.
type Memory struct{ InUse, Limit int64 }

// Totals is how many connections a transport has, and has had.
type Totals struct {
	Now      int    // that are there
	Total    uint64 // that have been there
	Refused  uint64 // for which there was no room,
	Replaced uint64 // or that made room for another
	Stalled  uint64 // cut because they held memory that others waited for
}

// ConnStats is what is known of a connection over TCP.
type ConnStats struct {
	Peer     netip.AddrPort
	Since    time.Time
	Calls    uint64 // that have come,
	UnderWay int    // and of them those that are not answered
	In, Out  uint64 // octets that have come, and that the peer has acknowledged
}

// Stats returns what s has and has done.
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

// Connections returns those that are there now, the oldest first.
func (s *Server) Connections() []ConnStats {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]ConnStats, 0, len(s.conns))
	for c := range s.conns {
		in, out := keepalive.Traffic(c.nc)
		all = append(all, ConnStats{
			Peer: c.peer.Addr, Since: c.since, Calls: c.calls.Load(), UnderWay: int(c.underWay.Load()), In: in, Out: out,
		})
	}
	slices.SortFunc(all, func(a, b ConnStats) int { return cmp.Or(a.Since.Compare(b.Since), a.Peer.Compare(b.Peer)) })
	return all
}
