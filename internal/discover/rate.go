package discover

import (
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// A rate bounds the answers in a second, in total, to each party and to each
// address. The bounds limit its memory too.
type rate struct {
	all, each int
	began     time.Time // start of the second
	n         int
	of        map[netip.Addr]int
	parties   map[fairshare.Name]int
}

// allow reports whether another answer is within the bounds, and counts that
// answer.
func (r *rate) allow(a netip.Addr, now time.Time) bool {
	if d := now.Sub(r.began); d >= time.Second || d < 0 {
		r.began, r.n = now, 0
		clear(r.of)
		clear(r.parties)
	}
	party := fairshare.PartyOfIP(a)
	if r.n >= r.all || r.of[a] >= r.each || r.parties[party] >= r.all/partyPart {
		return false
	}
	if r.of == nil {
		r.of, r.parties = make(map[netip.Addr]int), make(map[fairshare.Name]int)
	}
	r.n++
	r.of[a]++
	r.parties[party]++
	return true
}
