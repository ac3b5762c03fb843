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

// A Lookup asks the name service; *net.Resolver is one.
type Lookup interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// A Resolver remembers what the name service says. Nobody waits for an answer
// that was known within the hour: it is used once more while it is asked for
// again. It may be used by many goroutines at once.
type Resolver struct {
	lookup  Lookup
	answers *lookupcache.Answers[query, answer]
}

// A query is one of both.
type query struct {
	addr netip.Addr
	name string
}

// An answer is to a query of an address, or of a name. What the slices hold does
// not change.
type answer struct {
	names []string
	addrs []netip.Addr
}

// NewResolver returns a Resolver that asks l, or the host's name service if that
// is nil. log is told of failures; nil means none.
func NewResolver(l Lookup, log *slog.Logger) *Resolver {
	if l == nil {
		l = net.DefaultResolver
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Resolver{lookup: l}
	r.answers = lookupcache.New(lookupcache.Config[query, answer]{
		Ask: r.ask,
		Failed: func(q query, err error) {
			log.Warn("the name service does not answer: clients that are new and may be meant by a name in the exports have to wait",
				"name", q.name, "addr", q.addr, "err", err)
		},
		Limits: lookupcache.Limits{
			Time: lookupTime, AtOnce: maxLookups, Kept: maxAnswers,
			Fresh: freshTime, None: noneTime, Fail: failTime, Stale: staleTime,
		},
	})
	return r
}

// Close ends all lookups. Names are unknown from then on.
func (r *Resolver) Close() { r.answers.Close() }

// NamesOf is of Names.
func (r *Resolver) NamesOf(ctx context.Context, a netip.Addr) ([]string, error) {
	got, err := r.answers.Of(ctx, query{addr: a})
	return got.names, err
}

// AddrsOf is of Names.
func (r *Resolver) AddrsOf(ctx context.Context, name string) ([]netip.Addr, error) {
	got, err := r.answers.Of(ctx, query{name: name})
	return got.addrs, err
}

// ask does one lookup.
func (r *Resolver) ask(ctx context.Context, q query) (a answer, none bool, err error) {
	if q.name != "" {
		a.addrs, err = r.addrs(ctx, q.name)
	} else {
		a.names, err = r.names(ctx, q.addr)
	}
	return a, len(a.names)+len(a.addrs) == 0, err
}

// addrs asks for the addresses of a name.
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

// names asks for the names of an address, and whether each leads back to it:
// whoever has a network may write any name into its reverse zone.
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

// unlessNone returns err, but nil where it says that there is no such name.
func unlessNone(err error) error {
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return nil
	}
	return err
}
