package exports

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
)

// Names tells what hosts are called. A Resolver is one.
type Names interface {
	// NamesOf returns the names of a host, in lower case and without a dot at
	// the end, that lead back to its address; none where it has none. The
	// error tells that this is not known now.
	NamesOf(ctx context.Context, a netip.Addr) ([]string, error)

	// AddrsOf returns the addresses of the host of a name; none where there
	// is none. The error tells that this is not known now.
	AddrsOf(ctx context.Context, name string) ([]netip.Addr, error)
}

// ranks are the kinds in the order in which exports(5) asks them, whatever
// their order on the line. Of one rank, the first on the line counts.
var ranks = [][]Kind{{Address, Name}, {Network}, {Wildcard}, {Any}}

// Find returns the index of the client that a host is, or -1 where it is none,
// and whether names counted, whose meaning may change. Without names, no host
// has one. The error tells that it depends on a name that is not known now: no
// later entry may be taken then, since it may allow more than the one that the
// host is.
func Find(ctx context.Context, clients []Client, a netip.Addr, names Names) (i int, named bool, err error) {
	// An IPv4 client of a socket for both families has a mapped address, and
	// no prefix contains an address with a zone.
	q := question{ctx: ctx, addr: a.Unmap().WithZone(""), names: names}
	for _, rank := range ranks {
		for i := range clients {
			if h := &clients[i].Host; slices.Contains(rank, h.Kind) {
				if is, err := q.is(h); is || err != nil {
					return i, q.named, err
				}
			}
		}
	}
	return -1, q.named, nil
}

// A question is which client an address is.
type question struct {
	ctx   context.Context
	addr  netip.Addr
	names Names

	named bool     // names counted
	known []string // what the host is called, once named that way
	asked bool
}

// is tells whether the host is of h.
func (q *question) is(h *Host) (bool, error) {
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
	q.named = true
	if h.Kind == Name {
		addrs, err := q.names.AddrsOf(q.ctx, h.Name)
		if err != nil {
			return false, fmt.Errorf("whether %s is %s is not known now: %w", q.addr, h.Name, err)
		}
		return slices.Contains(addrs, q.addr), nil
	}
	if !q.asked {
		known, err := q.names.NamesOf(q.ctx, q.addr)
		if err != nil {
			return false, fmt.Errorf("what %s is called is not known now: %w", q.addr, err)
		}
		q.known, q.asked = known, true
	}
	return slices.ContainsFunc(q.known, func(name string) bool { return matches(h.Name, name) }), nil
}
