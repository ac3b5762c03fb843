package exports

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
)

// Names resolves host names. A Resolver implements it.
type Names interface {
	// NamesOf returns a host's names that resolve to its address, in lower case and without a
	// final dot. It returns none if the host has none, and an error if this is unknown now.
	NamesOf(ctx context.Context, a netip.Addr) ([]string, error)

	// AddrsOf returns a named host's addresses. It returns none if there is no such host, and
	// an error if this is unknown now.
	AddrsOf(ctx context.Context, name string) ([]netip.Addr, error)
}

// matchRanks are the kinds in the order in which exports(5) matches them, regardless of their
// order on the line. Within a rank, the first on the line wins.
var matchRanks = [][]Kind{{Address, Name}, {Network}, {Wildcard}, {Any}}

// Find returns the index of the client that matches a host, or -1 if none does. named reports
// whether the result depends on names, whose meaning may change. If names is nil, no host has a
// name. An error means that the result depends on a name that is unknown now. The caller must
// not use a later entry then, because that entry may permit more than the right entry.
func Find(ctx context.Context, clients []Client, a netip.Addr, names Names) (i int, named bool, err error) {
	// An IPv4 client has a mapped address on a socket for both families, and no prefix contains
	// an address with a zone.
	q := hostMatcher{ctx: ctx, addr: a.Unmap().WithZone(""), names: names}
	for _, rank := range matchRanks {
		for i := range clients {
			if h := &clients[i].Host; slices.Contains(rank, h.Kind) {
				if is, err := q.matchesHost(h); is || err != nil {
					return i, q.usedNames, err
				}
			}
		}
	}
	return -1, q.usedNames, nil
}

// A hostMatcher searches for the client that matches an address.
type hostMatcher struct {
	ctx   context.Context
	addr  netip.Addr
	names Names

	usedNames bool     // the result depends on names
	hostNames []string // the host's names, if hasNames is set
	hasNames  bool
}

// matchesHost reports whether h matches the host.
func (q *hostMatcher) matchesHost(h *Host) (bool, error) {
	switch h.Kind {
	case Any:
		return true, nil
	case Address, Network:
		return h.Net.Contains(q.addr), nil
	case Name, Wildcard:
	}
	if q.names == nil || !q.addr.IsValid() {
		return false, nil
	}
	q.usedNames = true
	if h.Kind == Name {
		addrs, err := q.names.AddrsOf(q.ctx, h.Name)
		if err != nil {
			return false, fmt.Errorf("whether %s is %s is not known now: %w", q.addr, h.Name, err)
		}
		return slices.Contains(addrs, q.addr), nil
	}
	if !q.hasNames {
		known, err := q.names.NamesOf(q.ctx, q.addr)
		if err != nil {
			return false, fmt.Errorf("the name of %s cannot be resolved now: %w", q.addr, err)
		}
		q.hostNames, q.hasNames = known, true
	}
	return slices.ContainsFunc(q.hostNames, func(name string) bool { return matchesPattern(h.Name, name) }), nil
}
