package discover

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// Found is a server that has responded.
type Found struct {
	Addr          netip.Addr // sender of the Answer
	Boot          uint64
	Since         time.Time
	RDMA, TCP     netip.AddrPort // the server's addresses; port 0: not served
	Host, Version string
	Exports       []string // "" is an export whose name does not fit a datagram
	Total         uint32   // number of exports; more than len(Exports) if answers were lost
}

// Find queries a server, or the servers in a multicast group, until all replies
// have arrived or ctx is done. A server that is queried by its address is found
// when it has listed all exports. The members of a group are unknown, so a group
// search lasts until ctx is done.
func (p *Port) Find(ctx context.Context, to netip.Addr) ([]Found, error) {
	f := search{Port: p, to: to, maxAnswer: min(maxMessage, p.dev.MaxPMTU()), found: make(map[netip.Addr]*Found), id: rand.Uint64()}
	err := f.queryServers(ctx)
	var list []Found
	for _, s := range f.found {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Found) int { return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Boot, b.Boot)) })
	if len(list) > 0 || ctx.Err() == nil {
		return list, err
	}
	return nil, ErrNoAnswer
}

// A search is the state of one Find.
type search struct {
	*Port
	to        netip.Addr
	maxAnswer int
	id        uint64
	found     map[netip.Addr]*Found
}

func (f *search) queryServers(ctx context.Context) error {
	for try := 0; ; try++ {
		for to := range f.queryTargets() {
			first := uint32(0)
			if s := f.found[to]; s != nil {
				first = uint32(len(s.Exports))
			}
			if err := f.sendRequest(to, kindQuery, f.id, queryBody{first}, f.maxAnswer); err != nil {
				return err
			}
		}
		if done, err := f.receiveAnswers(ctx, retryTimes[min(try, len(retryTimes)-1)]); done || err != nil {
			return err
		}
	}
}

// queryTargets returns the addresses to query: the server or the group, and the
// servers with unlisted exports.
func (f *search) queryTargets() map[netip.Addr]bool {
	ask := make(map[netip.Addr]bool)
	if f.to.IsMulticast() || f.found[f.to] == nil {
		ask[f.to] = true
	}
	for a, s := range f.found {
		if !s.isComplete() {
			ask[a] = true
		}
	}
	return ask
}

func (s *Found) isComplete() bool { return len(s.Exports) >= min(int(s.Total), maxExports) }

// receiveAnswers receives answers until wait is over. It immediately sends another
// query to a server with more exports.
func (f *search) receiveAnswers(ctx context.Context, wait time.Duration) (done bool, err error) {
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case in := <-f.in:
			s := f.recordAnswer(&in)
			switch {
			case s == nil:
			case !s.isComplete():
				if err := f.sendRequest(in.from, kindQuery, f.id, queryBody{uint32(len(s.Exports))}, f.maxAnswer); err != nil {
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

// recordAnswer records an answer with new facts. An answer with another boot number
// replaces the server's entry.
func (f *search) recordAnswer(in *serverMessage) *Found {
	if in.ID != f.id || in.Kind != kindAnswer || !f.to.IsMulticast() && in.from != f.to {
		return nil
	}
	a, err := parseAnswer(&in.body)
	if err != nil || f.found[in.from] == nil && len(f.found) >= maxFound {
		return nil
	}
	f.cookie[in.from] = a.Cookie // a client with a cookie may send more queries
	s := f.found[in.from]
	if s == nil || s.Boot != in.Boot {
		s = &Found{
			Addr: in.from, Boot: in.Boot, Since: time.UnixMilli(int64(in.Since)), RDMA: answerAddr(a.RDMA, in.from), TCP: answerAddr(a.TCP, in.from),
			Host: a.Host, Version: a.Version,
		}
		f.found[in.from] = s
	}
	if a.First != uint32(len(s.Exports)) || len(s.Exports) >= maxExports {
		return nil // a duplicate, or unsolicited
	}
	s.Total, s.Exports = a.Total, append(s.Exports, a.Exports[:min(len(a.Exports), maxExports-len(s.Exports))]...)
	if len(a.Exports) == 0 {
		s.Total = uint32(len(s.Exports)) // no more will arrive: ignore Total
	}
	return s
}

// answerAddr replaces an unspecified address with the answer's source.
func answerAddr(a netip.AddrPort, from netip.Addr) netip.AddrPort {
	if !a.Addr().IsUnspecified() {
		return a
	}
	return netip.AddrPortFrom(from, a.Port())
}
