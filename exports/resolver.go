package exports

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"

	"github.com/nfsrdma/nfsrdma/internal/lookupcache"
)

// A Lookup queries the name service; *net.Resolver is one.
type Lookup interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// A Resolver caches the answers of the name service. No call waits for an
// answer that was known within the hour: the old answer is used while a new
// query runs. A Resolver is safe for concurrent use.
type Resolver struct {
	lookup  Lookup
	answers *lookupcache.Answers[struct{}, query, answer]
}

// A query is for an address or for a name.
type query struct {
	addr netip.Addr
	name string
}

// An answer is the answer to a query for an address, or for a name. The content
// of the slices does not change.
type answer struct {
	names []string
	addrs []netip.Addr
}

// NewResolver returns a Resolver that queries l, or the host's name service if
// l is nil. Failures are written to log; nil means none.
func NewResolver(l Lookup, log *slog.Logger) *Resolver {
	if l == nil {
		l = net.DefaultResolver
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Resolver{lookup: l}
	r.answers = lookupcache.New(lookupcache.Config[struct{}, query, answer]{
		Ask: r.ask,
		Failed: func(q query, err error) {
			log.Warn("the name service does not answer: new clients that a name in the exports may match wait; check the host's resolver",
				"name", q.name, "addr", q.addr, "err", err)
		},
		Limits: lookupcache.Limits{
			Time: lookupTime, AtOnce: maxLookups, Kept: maxAnswers,
			Fresh: freshTime, None: noneTime, Fail: failTime, Stale: staleTime,
		},
	})
	return r
}

// Close stops all lookups. Names are unknown from then on.
func (r *Resolver) Close() { r.answers.Close() }

// NamesOf implements Names.
func (r *Resolver) NamesOf(ctx context.Context, a netip.Addr) ([]string, error) {
	got, err := r.answers.Of(ctx, struct{}{}, query{addr: a})
	return got.names, err
}

// AddrsOf implements Names.
func (r *Resolver) AddrsOf(ctx context.Context, name string) ([]netip.Addr, error) {
	got, err := r.answers.Of(ctx, struct{}{}, query{name: name})
	return got.addrs, err
}

// ask does one lookup.
func (r *Resolver) ask(ctx context.Context, _ struct{}, q query) (a answer, none bool, err error) {
	if q.name != "" {
		a.addrs, err = r.addrs(ctx, q.name)
	} else {
		a.names, err = r.names(ctx, q.addr)
	}
	return a, len(a.names)+len(a.addrs) == 0, err
}

// addrs looks up the addresses of a name.
func (r *Resolver) addrs(ctx context.Context, name string) ([]netip.Addr, error) {
	addrs, err := r.lookup.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil, unlessNone(err)
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap().WithZone("")
	}
	return addrs, nil
}

// names looks up the names of an address that lead back to the address. The
// check is needed because the owner of a network may write any name into its
// reverse zone.
func (r *Resolver) names(ctx context.Context, a netip.Addr) (confirmed []string, err error) {
	names, err := r.lookup.LookupAddr(ctx, a.String())
	if err != nil {
		return nil, unlessNone(err)
	}
	for _, name := range names[:min(len(names), maxReverse)] {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		addrs, err := r.addrs(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, back := range addrs {
			if back == a {
				confirmed = append(confirmed, name)
				break
			}
		}
	}
	return confirmed, nil
}

// unlessNone returns err, or nil if err means that there is no such name.
func unlessNone(err error) error {
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return nil
	}
	return err
}
