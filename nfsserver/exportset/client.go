package exportset

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A peerAccess is a peer's access to an export. It is immutable.
type peerAccess struct {
	preferred     flavorAccess     // for the preferred flavor
	others        []flavorAccess   // for the other flavors
	denial        error            // the reason if all calls are rejected
	clientOptions *exports.Options // set unless all calls are rejected, or if another transport might help
	validUntil    time.Time        // zero: unlimited
}

// A flavorAccess is the access for calls with one flavor.
type flavorAccess struct {
	flavor  uint32
	options *exports.Options
	denial  error // nil: access is permitted, with the options
}

// noFlavor is a flavor that no call has.
const noFlavor = math.MaxUint32

// forFlavor returns the options for calls with a flavor, or the reason why they are rejected.
// The preferred flavor costs one comparison.
func (v *peerAccess) forFlavor(flavor uint32) (*exports.Options, error) {
	if v.preferred.flavor == flavor {
		return v.preferred.options, v.preferred.denial
	}
	return v.forOtherFlavor(flavor)
}

// forOtherFlavor is the slow path of forFlavor. Calls without a credential are served as nobody
// if calls with an unverified credential are served, which may claim to be nobody.
func (v *peerAccess) forOtherFlavor(flavor uint32) (*exports.Options, error) {
	if v.denial != nil {
		return nil, v.denial
	}
	for i := range v.others {
		if g := &v.others[i]; g.flavor == flavor {
			return g.options, g.denial
		}
	}
	if flavor == rpcmsg.AuthNone {
		return v.forFlavor(rpcmsg.AuthSys)
	}
	return nil, WrongSec
}

// admitFlavors sets the access for a client's flavors. A call's port proves nothing that a
// verified credential does not prove better.
func (v *peerAccess) admitFlavors(o *exports.Options, safePort bool) {
	v.clientOptions = o
	for i, f := range o.Flavors() {
		g := flavorAccess{flavor: uint32(f), options: o}
		if one := o.Of(f); one != *o {
			own := one
			g.options = &own
		}
		if !f.Kerberos() && !o.Insecure && !safePort {
			g = flavorAccess{flavor: uint32(f), denial: Perm}
		}
		if i == 0 {
			v.preferred = g
		} else {
			v.others = append(v.others, g)
		}
	}
}

// A peerCache caches a peer's access to all exports in a snapshot, and whether any of these
// lists the peer. The peer's connection stores it.
type peerCache struct {
	setNumber uint64
	access    []atomic.Pointer[peerAccess]
	listing   atomic.Pointer[hostListing]
}

// cacheFor returns a peer's cache for a snapshot.
func (s *Set) cacheFor(p *oncrpc.Peer, set *Snapshot) *peerCache {
	m := s.peerCaches.Load(p)
	if m == nil || m.setNumber != set.number {
		m = &peerCache{setNumber: set.number, access: make([]atomic.Pointer[peerAccess], len(set.list))}
		s.peerCaches.Store(p, m)
	}
	return m
}

// accessFor returns a peer's access to e, which is an export in set. A cached result allocates
// no memory and never waits.
func (s *Set) accessFor(ctx context.Context, p *oncrpc.Peer, set *Snapshot, e *Exported) *peerAccess {
	if p == nil {
		return s.resolveAccess(ctx, p, e)
	}
	known := &s.cacheFor(p, set).access[e.index]
	if v := known.Load(); v != nil && (v.validUntil.IsZero() || time.Now().Before(v.validUntil)) {
		return v
	}
	v := s.resolveAccess(ctx, p, e)
	if v.denial != Later {
		known.Store(v)
	}
	return v
}

// resolveAccess determines a peer's access. It may wait for names, for a bounded time.
func (s *Set) resolveAccess(ctx context.Context, p *oncrpc.Peer, e *Exported) *peerAccess {
	if e.ClientsUnknown() {
		return &peerAccess{preferred: flavorAccess{flavor: noFlavor}, denial: Later}
	}
	ctx, cancel := context.WithTimeout(ctx, nameLookupTimeout)
	defer cancel()
	i, named, err := exports.Find(ctx, e.Clients, addrOf(p), s.names)
	v := peerAccess{preferred: flavorAccess{flavor: noFlavor}}
	if named {
		v.validUntil = time.Now().Add(accessTime)
	}
	switch {
	case err != nil:
		v.denial = Later // the client must try again, and gets no undue access
	case i < 0, e.IsSubmount() && !crossesMounts(&e.Clients[i].Options):
		v.denial = Access
	case !e.Clients[i].Options.Xprtsec.Take(peerTransport(p)):
		// The flavor does not matter, and there are no exceptions: an unencrypted call could be
		// changed on its way.
		v.denial, v.clientOptions = WrongTransport, &e.Clients[i].Options
	default:
		v.admitFlavors(&e.Clients[i].Options, hasSecurePort(p))
	}
	return &v
}

// crossesMounts reports whether a client with these options sees the file systems that are mounted
// below an export. One that is referred to other servers sees nothing here.
func crossesMounts(o *exports.Options) bool { return o.CrossMnt && !o.Refer.Set() }

// peerTransport returns the protection of a peer's connection. A caller within this process
// needs none.
func peerTransport(p *oncrpc.Peer) exports.Transport {
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

// hasSecurePort reports whether a peer's port shows that its host's superuser vouches for the
// calls. An RDMA connection's port proves nothing, because Linux's client uses any port; all of
// these count as secure, as in knfsd. A caller within this process has no port.
func hasSecurePort(p *oncrpc.Peer) bool {
	return p == nil || p.Network == "rdma" || p.Addr.Port() < reservedPorts
}
