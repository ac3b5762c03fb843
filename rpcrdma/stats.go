package rpcrdma

import (
	"cmp"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// ServerStats is a snapshot of a Server's resources and counts.
type ServerStats struct {
	oncrpc.Totals // connections, including those being set up

	Memory  oncrpc.Memory // for chunks
	Inline  oncrpc.Memory // other memory for calls in flight
	Waiting int           // calls that wait for memory

	Counters oncrpc.Memory // for delegation counters

	// Replies to calls that could not be served: RDMA_ERROR with ERR_VERS or
	// ERR_CHUNK, or none.
	ErrVers, ErrChunk, Dropped uint64
}

// errorCounts counts the calls that cannot be served.
type errorCounts struct{ vers, chunk, dropped atomic.Uint64 }

func (n *errorCounts) countError(code wire.ErrCode, answer bool) {
	switch {
	case !answer:
		n.dropped.Add(1)
	case code == wire.ErrVers:
		n.vers.Add(1)
	default:
		n.chunk.Add(1)
	}
}

// ConnStats describes a connection.
type ConnStats struct {
	Peer  netip.AddrPort
	Since time.Time
	Conn  rdma.Conn // its provider may know more

	SendInline, RecvInline int            // the inline thresholds, in bytes
	Invalidate             bool           // the peer accepts a Send With Invalidate
	Ours                   bool           // the peer belongs to this project
	Extensions             Extensions     // enabled extensions
	ExtensionConn          *ExtensionConn // nil: none

	Calls    uint64 // received
	UnderWay int    // received and not completed
	Granted  int    // credits, by the last reply
	Inline   int64  // bytes used by calls in flight, excluding memory for chunks
}

// Stats returns a snapshot of the server's resources and counts.
func (s *Server) Stats() ServerStats {
	_ = s.init() // Serve returns the error
	s.mu.Lock()
	defer s.mu.Unlock()
	totals := s.totals
	totals.Now = len(s.conns)
	return ServerStats{
		Totals:  totals,
		Memory:  oncrpc.Memory{InUse: s.memory.InUse(), Limit: s.memory.Limit()},
		Inline:  oncrpc.Memory{InUse: s.inlineBytes.Load(), Limit: s.cfg.maxInline},
		Waiting: s.memory.Waiting(), Counters: oncrpc.Memory{InUse: s.counters.InUse(), Limit: s.counters.Limit()},
		ErrVers: s.errors.vers.Load(), ErrChunk: s.errors.chunk.Load(), Dropped: s.errors.dropped.Load(),
	}
}

// Connections returns the connections that are set up, oldest first.
func (s *Server) Connections() []ConnStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]ConnStats, 0, len(s.conns))
	for c := range s.conns {
		if c.isReady() && c.rc != nil {
			all = append(all, c.connStats())
		}
	}
	slices.SortFunc(all, func(a, b ConnStats) int { return cmp.Or(a.Since.Compare(b.Since), a.Peer.Compare(b.Peer)) })
	return all
}

func (c *conn) connStats() ConnStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := ConnStats{
		Peer: c.peer.Addr, Since: c.acceptedAt, Conn: c.rc,
		SendInline: c.maxSend, RecvInline: c.srv.cfg.inline, Invalidate: c.invalidate,
		Calls: c.callCount, UnderWay: c.inFlight, Granted: int(c.credits.granted), Inline: c.inlineBytes,
	}
	if c.extConn != nil {
		s.Ours, s.Extensions, s.ExtensionConn = true, c.extConn.Extensions(), c.extConn
	}
	return s
}
