package discover

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// Found is a server that has answered.
type Found struct {
	Addr          netip.Addr // of the answer's sender
	Boot          uint64
	Since         time.Time
	RDMA, TCP     netip.AddrPort // the server's addresses; port 0: not served
	Host, Version string
	Exports       []string // "" is an export whose name does not fit a datagram
	Total         uint32   // number of exports; more than len(Exports) if answers were lost
}

// Find queries a server, or the servers of a group, until all answers have
// arrived or ctx ends. A server that is queried by its address is found when it
// has listed all exports. The members of a group are unknown, so a search of a
// group lasts until ctx ends.
func (p *Port) Find(ctx context.Context, to netip.Addr) ([]Found, error) {
	f := finder{Port: p, to: to, room: min(maxMessage, p.dev.MaxPMTU()), all: make(map[netip.Addr]*Found), id: rand.Uint64()}
	err := f.run(ctx)
	var list []Found
	for _, s := range f.all {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Found) int { return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Boot, b.Boot)) })
	if len(list) > 0 || ctx.Err() == nil {
		return list, err
	}
	return nil, ErrNoAnswer
}

// A finder is a search.
type finder struct {
	*Port
	to   netip.Addr
	room int
	id   uint64
	all  map[netip.Addr]*Found
}

func (f *finder) run(ctx context.Context) error {
	for try := 0; ; try++ {
		for to := range f.unsaid() {
			first := uint32(0)
			if s := f.all[to]; s != nil {
				first = uint32(len(s.Exports))
			}
			if err := f.send(to, KindQuery, f.id, Query{first}, f.room); err != nil {
				return err
			}
		}
		if done, err := f.gather(ctx, askTimes[min(try, len(askTimes)-1)]); done || err != nil {
			return err
		}
	}
}

// unsaid returns the addresses to ask: the server or the group, and the servers
// with unlisted exports.
func (f *finder) unsaid() map[netip.Addr]bool {
	ask := make(map[netip.Addr]bool)
	if f.to.IsMulticast() || f.all[f.to] == nil {
		ask[f.to] = true
	}
	for a, s := range f.all {
		if !s.whole() {
			ask[a] = true
		}
	}
	return ask
}

func (s *Found) whole() bool { return len(s.Exports) >= min(int(s.Total), maxExports) }

// gather takes answers for a time. It asks a server with more exports again at
// once.
func (f *finder) gather(ctx context.Context, wait time.Duration) (done bool, err error) {
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case in := <-f.in:
			s := f.take(&in)
			switch {
			case s == nil:
			case !s.whole():
				if err := f.send(in.from, KindQuery, f.id, Query{uint32(len(s.Exports))}, f.room); err != nil {
					return false, err
				}
			case in.from == f.to:
				return true, nil
			}
		case <-t.C:
			return false, nil
		case <-f.ud.Done():
			return false, f.ud.Err()
		case <-ctx.Done():
			return true, nil
		}
	}
}

// take notes an answer with new facts. An answer of another boot starts the
// server's entry anew.
func (f *finder) take(in *incoming) *Found {
	if in.ID != f.id || in.Kind != KindAnswer || !f.to.IsMulticast() && in.from != f.to {
		return nil
	}
	a, err := parseAnswer(&in.body)
	if err != nil || f.all[in.from] == nil && len(f.all) >= maxFound {
		return nil
	}
	f.cookie[in.from] = a.Cookie // a client with a cookie may ask more often
	s := f.all[in.from]
	if s == nil || s.Boot != in.Boot {
		s = &Found{
			Addr: in.from, Boot: in.Boot, Since: time.UnixMilli(int64(in.Since)), RDMA: at(a.RDMA, in.from), TCP: at(a.TCP, in.from),
			Host: a.Host, Version: a.Version,
		}
		f.all[in.from] = s
	}
	if a.First != uint32(len(s.Exports)) || len(s.Exports) >= maxExports {
		return nil // a duplicate, or unsolicited
	}
	s.Total, s.Exports = a.Total, append(s.Exports, a.Exports[:min(len(a.Exports), maxExports-len(s.Exports))]...)
	if len(a.Exports) == 0 {
		s.Total = uint32(len(s.Exports)) // no more will come: ignore Total
	}
	return s
}

// at replaces an unspecified address by the answer's.
func at(a netip.AddrPort, from netip.Addr) netip.AddrPort {
	if !a.Addr().IsUnspecified() {
		return a
	}
	return netip.AddrPortFrom(from, a.Port())
}
