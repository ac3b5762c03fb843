package realm

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A verdict is a peer's access to an export. It is immutable.
type verdict struct {
	first  gate             // of the preferred flavour
	more   []gate           // of the others
	denial error            // the reason if all calls are refused
	client *exports.Options // if not all are, or another transport might help
	until  time.Time        // zero: unlimited
}

// A gate is the access of calls with one flavour.
type gate struct {
	flavor  uint32
	options *exports.Options
	denial  error // nil: access is permitted, with the options
}

// noFlavor is the flavour of no call.
const noFlavor = math.MaxUint32

// of returns the options for calls with a flavour, or why they are refused. The
// preferred flavour costs one comparison.
func (v *verdict) of(flavor uint32) (*exports.Options, error) {
	if v.first.flavor == flavor {
		return v.first.options, v.first.denial
	}
	return v.other(flavor)
}

// other is of for the other flavours. Calls without a credential are served as
// nobody if calls whose credential nobody has verified are served: these may
// claim to be nobody.
func (v *verdict) other(flavor uint32) (*exports.Options, error) {
	if v.denial != nil {
		return nil, v.denial
	}
	for i := range v.more {
		if g := &v.more[i]; g.flavor == flavor {
			return g.options, g.denial
		}
	}
	if flavor == rpcmsg.AuthNone {
		return v.of(rpcmsg.AuthSys)
	}
	return nil, WrongSec
}

// admit sets the gates of a client's flavours. The port of a call shows nothing
// that a verified credential does not show better.
func (v *verdict) admit(o *exports.Options, safePort bool) {
	v.client = o
	for i, f := range o.Flavors() {
		g := gate{flavor: uint32(f), options: o}
		if one := o.Of(f); one != *o {
			own := one
			g.options = &own
		}
		if !f.Kerberos() && !o.Insecure && !safePort {
			g = gate{flavor: uint32(f), denial: Perm}
		}
		if i == 0 {
			v.first = g
		} else {
			v.more = append(v.more, g)
		}
	}
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
	v := verdict{first: gate{flavor: noFlavor}}
	if named {
		v.until = time.Now().Add(verdictTime)
	}
	switch {
	case err != nil:
		v.denial = Later // the client must ask again, and gets no undue access
	case i < 0:
		v.denial = Access
	case !e.Clients[i].Options.Xprtsec.Take(transportOf(p)):
		// No flavour makes up for it, and nothing is exempt: a call in clear is an
		// invitation to change it on its way.
		v.denial, v.client = WrongTransport, &e.Clients[i].Options
	default:
		v.admit(&e.Clients[i].Options, secure(p))
	}
	return &v
}

// transportOf returns the protection of a peer's connection. A caller within this
// process needs none.
func transportOf(p *oncrpc.Peer) exports.Transport {
	switch {
	case p == nil || p.Security != nil && p.Security.Mutual:
		return exports.TransportMTLS
	case p.Security != nil:
		return exports.TransportTLS
	}
	return exports.TransportNone
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
