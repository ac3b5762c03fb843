package exportset

import (
	"context"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A hostListing records whether any export lists a peer. It is immutable.
type hostListing struct {
	denial     error     // nil: an export lists the peer; otherwise Access
	validUntil time.Time // zero: unlimited
}

// CheckListed returns nil if any export lists a peer's host, with whatever flavors and
// transports. Otherwise it returns Access, or Later if that depends on a name that is unknown
// now. It may wait for names, for a bounded time. A cached result allocates no memory and never
// waits. A connection whose host was listed stays listed while its name cannot be looked up
// again.
func (s *Set) CheckListed(ctx context.Context, p *oncrpc.Peer) error {
	if p == nil {
		return nil // within this process
	}
	set := s.snapshot.Load()
	m := s.cacheFor(p, set)
	known := m.listing.Load()
	if known != nil && (known.validUntil.IsZero() || time.Now().Before(known.validUntil)) {
		return known.denial
	}
	l := s.findListing(ctx, p, set)
	switch {
	case l.denial != Later:
		m.listing.Store(&l)
	case known != nil && known.denial == nil:
		return nil
	}
	return l.denial
}

// findListing determines whether any export lists a peer. It looks up names only if no address
// decides.
func (s *Set) findListing(ctx context.Context, p *oncrpc.Peer, set *Snapshot) (l hostListing) {
	for _, e := range set.list {
		if i, _, _ := exports.Find(ctx, e.Clients, addrOf(p), nil); i >= 0 && !e.ClientsUnknown() {
			return hostListing{}
		}
	}
	if p.Network == "udp" {
		select {
		case s.packetLookups <- struct{}{}:
			defer func() { <-s.packetLookups }()
		default:
			return hostListing{denial: Later}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, nameLookupTimeout)
	defer cancel()
	l.denial = Access
	for _, e := range set.list {
		switch v := s.accessFor(ctx, p, set, e); {
		case v.clientOptions != nil:
			return hostListing{validUntil: v.validUntil}
		case v.denial == Later:
			l.denial = Later
		case l.validUntil.IsZero() || !v.validUntil.IsZero() && v.validUntil.Before(l.validUntil):
			l.validUntil = v.validUntil
		}
	}
	if l.denial == Access {
		s.log.Warn("rejecting calls: no export is for this client; add it to the clients of an export", "client", addrOf(p))
	}
	return l
}
