package nfsserver

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A verdict is what a peer may do with an export. It does not change.
type verdict struct {
	status  nfs3.Status      // why it may do nothing
	options *exports.Options // else
	until   time.Time        // zero: for good
}

// A memo is what was found out about a peer, for all exports of a set: its
// connection remembers it.
type memo struct {
	set      uint64
	verdicts []atomic.Pointer[verdict]
}

// verdict returns what a peer may do with e, which is an export of set. Where it
// was asked before, that costs no allocation and waits for nothing.
func (s *Server) verdict(ctx context.Context, p *oncrpc.Peer, set *exportSet, e *export) *verdict {
	if p == nil {
		return s.decide(ctx, p, e)
	}
	m, _ := p.Memo.Load().(*memo)
	if m == nil || m.set != set.number {
		m = &memo{set: set.number, verdicts: make([]atomic.Pointer[verdict], len(set.list))}
		p.Memo.Store(m)
	}
	known := &m.verdicts[e.index]
	if v := known.Load(); v != nil && (v.until.IsZero() || time.Now().Before(v.until)) {
		return v
	}
	v := s.decide(ctx, p, e)
	if v.status != nfs3.ErrJukebox {
		known.Store(v)
	}
	return v
}

// decide asks who a peer is. It may wait for names, for a bounded time.
func (s *Server) decide(ctx context.Context, p *oncrpc.Peer, e *export) *verdict {
	ctx, cancel := context.WithTimeout(ctx, namesTime)
	defer cancel()
	i, named, err := exports.Find(ctx, e.clients, addrOf(p), s.names)
	var v verdict
	if named {
		v.until = time.Now().Add(verdictTime)
	}
	switch {
	case err != nil:
		v.status = nfs3.ErrJukebox // to be asked again, and not to be told more than is right
	case i < 0:
		v.status = nfs3.ErrAcces
	case !e.clients[i].Options.Insecure && !secure(p):
		v.status = nfs3.ErrPerm
	default:
		v.options = &e.clients[i].Options
	}
	return &v
}

// reservedPorts are those that only the superuser of a host may use.
const reservedPorts = 1024

// secure tells whether a peer's port says that its host's superuser vouches for
// what it sends. That of a connection on RDMA says nothing, for Linux's client
// takes any; all of them count as secure there, as with knfsd. A caller within
// this process has no port.
func secure(p *oncrpc.Peer) bool {
	return p == nil || p.Network == "rdma" || p.Addr.Port() < reservedPorts
}
