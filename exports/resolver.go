package exports

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
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
	lookup Lookup
	log    *slog.Logger
	ctx    context.Context // of lookups, which go on without those who asked
	cancel context.CancelFunc
	asking sync.WaitGroup

	mu      sync.Mutex
	answers map[query]*answer
	running int // lookups; below 0 when closed
}

// A query is one of both.
type query struct {
	addr netip.Addr
	name string
}

// An answer is what is known of a query. Its fields are guarded by the
// Resolver; what the slices hold does not change.
type answer struct {
	names []string     // of an address
	addrs []netip.Addr // of a name

	at    time.Time     // when it came; zero: never
	fresh time.Time     // nobody asks again until then
	err   error         // of the last lookup
	done  chan struct{} // closed when the lookup that runs has ended; nil: none does
}

var (
	errBusy   = errors.New("too many questions to the name service are under way")
	errClosed = errors.New("names are not asked for any more")
)

// NewResolver returns a Resolver that asks l, or the host's name service if that
// is nil. log is told of failures; nil means none.
func NewResolver(l Lookup, log *slog.Logger) *Resolver {
	if l == nil {
		l = net.DefaultResolver
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Resolver{lookup: l, log: log, answers: make(map[query]*answer)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close ends all lookups. Names are unknown from then on.
func (r *Resolver) Close() {
	r.mu.Lock()
	r.running -= 1 << 30
	r.mu.Unlock()
	r.cancel()
	r.asking.Wait()
}

// NamesOf is of Names.
func (r *Resolver) NamesOf(ctx context.Context, a netip.Addr) ([]string, error) {
	got, err := r.ask(ctx, query{addr: a})
	return got.names, err
}

// AddrsOf is of Names.
func (r *Resolver) AddrsOf(ctx context.Context, name string) ([]netip.Addr, error) {
	got, err := r.ask(ctx, query{name: name})
	return got.addrs, err
}

// ask returns the answer to q, and waits for it where none can be used.
func (r *Resolver) ask(ctx context.Context, q query) (answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.answerLocked(q)
	now := time.Now()
	if now.After(a.fresh) && a.done == nil {
		r.startLocked(q, a)
	}
	known := !a.at.IsZero() && now.Before(a.at.Add(staleTime))
	if !known && a.done != nil {
		done := a.done
		r.mu.Unlock()
		var err error
		select {
		case <-done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		r.mu.Lock()
		if err != nil {
			return answer{}, err
		}
		known = a.err == nil
	}
	if !known {
		return answer{}, a.err
	}
	return *a, nil
}

// answerLocked returns the answer to q, perhaps a new one, for which an old one
// makes room.
func (r *Resolver) answerLocked(q query) *answer {
	a := r.answers[q]
	if a == nil {
		a = new(answer)
		if len(r.answers) >= maxAnswers {
			for old, other := range r.answers { // any
				if other.done == nil {
					delete(r.answers, old)
					break
				}
			}
		}
		r.answers[q] = a
	}
	return a
}

func (r *Resolver) startLocked(q query, a *answer) {
	switch {
	case r.running < 0:
		a.err = errClosed
		return
	case r.running >= maxLookups:
		a.err = errBusy
		return
	}
	r.running++
	a.done = make(chan struct{})
	r.asking.Go(func() { r.run(q, a) })
}

// run does one lookup.
func (r *Resolver) run(q query, a *answer) {
	ctx, cancel := context.WithTimeout(r.ctx, lookupTime)
	defer cancel()
	var names []string
	var addrs []netip.Addr
	var err error
	if q.name != "" {
		addrs, err = r.addrs(ctx, q.name)
	} else {
		names, err = r.names(ctx, q.addr)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	now := time.Now()
	a.err = err
	switch {
	case err != nil:
		r.log.Warn("the name service does not answer: clients that are new and may be meant by a name in the exports have to wait",
			"name", q.name, "addr", q.addr, "err", err)
		a.fresh = now.Add(failTime)
	case len(names)+len(addrs) == 0:
		a.names, a.addrs, a.at, a.fresh = nil, nil, now, now.Add(noneTime)
	default:
		a.names, a.addrs, a.at, a.fresh = names, addrs, now, now.Add(freshTime)
	}
	close(a.done)
	a.done = nil
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
