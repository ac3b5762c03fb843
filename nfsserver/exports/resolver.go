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

// A Lookup queries the name service; *net.Resolver implements it.
type Lookup interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// A Resolver caches the name service's replies. No call waits for a reply that was known within
// the last hour: the old reply is used while a new query runs. A Resolver is safe for
// concurrent use.
type Resolver struct {
	lookup  Lookup
	answers *lookupcache.Answers[struct{}, query, answer]
}

// A query is for an address or for a name.
type query struct {
	addr netip.Addr
	name string
}

// An answer is the reply to a query for an address, or for a name. The slices' content does not
// change.
type answer struct {
	names []string
	addrs []netip.Addr
}

// NewResolver returns a Resolver that queries l, or the host's name service if l is nil.
// Failures are written to log; nil means none.
func NewResolver(l Lookup, log *slog.Logger) *Resolver {
	if l == nil {
		l = net.DefaultResolver
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Resolver{lookup: l}
	r.answers = lookupcache.New(lookupcache.Config[struct{}, query, answer]{
		Ask: r.lookUp,
		Failed: func(q query, err error) {
			log.Warn("name service does not respond; new clients that a host name in the exports may match wait; check the host's resolver",
				"name", q.name, "addr", q.addr, "err", err)
		},
		Limits: lookupcache.Limits{
			Time: lookupTimeout, AtOnce: maxLookups, Kept: maxAnswers,
			Fresh: freshTime, None: noneTime, Fail: retryTime, Stale: staleTime,
		},
	})
	return r
}

// Close stops all lookups. Names are unknown afterwards.
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

// lookUp performs one lookup.
func (r *Resolver) lookUp(ctx context.Context, _ struct{}, q query) (a answer, none bool, err error) {
	if q.name != "" {
		a.addrs, err = r.lookUpAddrs(ctx, q.name)
	} else {
		a.names, err = r.lookUpNames(ctx, q.addr)
	}
	return a, len(a.names)+len(a.addrs) == 0, err
}

// lookUpAddrs looks up a name's addresses.
func (r *Resolver) lookUpAddrs(ctx context.Context, name string) ([]netip.Addr, error) {
	addrs, err := r.lookup.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil, ignoreNotFound(err)
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap().WithZone("")
	}
	return addrs, nil
}

// lookUpNames looks up an address's names that resolve to the address. The check is needed
// because a network's owner may write any name into its reverse zone.
func (r *Resolver) lookUpNames(ctx context.Context, a netip.Addr) (confirmed []string, err error) {
	names, err := r.lookup.LookupAddr(ctx, a.String())
	if err != nil {
		return nil, ignoreNotFound(err)
	}
	for _, name := range names[:min(len(names), maxReverse)] {
		name = withFinalDot(strings.ToLower(name))
		addrs, err := r.lookUpAddrs(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, back := range addrs {
			if back == a {
				confirmed = append(confirmed, strings.TrimSuffix(name, "."))
				break
			}
		}
	}
	return confirmed, nil
}

// withFinalDot returns a name from a reverse lookup with a final dot, so that it is looked up
// as it is: otherwise the host's search list could confirm the name by one below a search
// domain. A name in /etc/hosts may have no dot at all, and is only found that way; a DNS name
// has the final dot.
func withFinalDot(name string) string {
	if strings.Contains(name, ".") && !strings.HasSuffix(name, ".") {
		name += "."
	}
	return name
}

// ignoreNotFound returns err, or nil if err means that there is no such name.
func ignoreNotFound(err error) error {
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return nil
	}
	return err
}
