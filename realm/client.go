package realm

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A verdict is a peer's access to an export. It is immutable.
type verdict struct {
	denial  error            // the reason if access is refused
	options *exports.Options // if access is permitted
	until   time.Time        // zero: unlimited
}

// A memo caches the verdicts on a peer for all exports of a set. The peer's
// connection stores it.
type memo struct {
	set      uint64
	verdicts []atomic.Pointer[verdict]
}

// verdict returns the access of a peer to e, which is an export of set. A
// cached verdict costs no allocation and never waits.
func (s *Realm) verdict(ctx context.Context, p *oncrpc.Peer, set *Set, e *Exported) *verdict {
	if p == nil {
		return s.decide(ctx, p, e)
	}
	m := s.memos.Load(p)
	if m == nil || m.set != set.number {
		m = &memo{set: set.number, verdicts: make([]atomic.Pointer[verdict], len(set.list))}
		s.memos.Store(p, m)
	}
	known := &m.verdicts[e.index]
	if v := known.Load(); v != nil && (v.until.IsZero() || time.Now().Before(v.until)) {
		return v
	}
	v := s.decide(ctx, p, e)
	if v.denial != Later {
		known.Store(v)
	}
	return v
}

// decide determines the access of a peer. It may wait for names, for a bounded
// time.
func (s *Realm) decide(ctx context.Context, p *oncrpc.Peer, e *Exported) *verdict {
	ctx, cancel := context.WithTimeout(ctx, namesTime)
	defer cancel()
	i, named, err := exports.Find(ctx, e.Clients, addrOf(p), s.names)
	var v verdict
	if named {
		v.until = time.Now().Add(verdictTime)
	}
	switch {
	case err != nil:
		v.denial = Later // the client must ask again, and gets no undue access
	case i < 0:
		v.denial = Access
	case !e.Clients[i].Options.Insecure && !secure(p):
		v.denial = Perm
	default:
		v.options = &e.Clients[i].Options
	}
	return &v
}

// reservedPorts is the bound below which only a host's superuser may use ports.
const reservedPorts = 1024

// secure reports whether a peer's port shows that its host's superuser vouches
// for the calls. The port of a connection on RDMA shows nothing, because
// Linux's client takes any port; all of these count as secure, as in knfsd. A
// caller within this process has no port.
func secure(p *oncrpc.Peer) bool {
	return p == nil || p.Network == "rdma" || p.Addr.Port() < reservedPorts
}
