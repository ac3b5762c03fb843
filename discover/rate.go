package discover

import (
	"net/netip"
	"time"
)

// A rate bounds how much is answered in a second, to all and to each address. What
// it remembers is bounded by that too.
type rate struct {
	all, each int
	began     time.Time // the second
	n         int
	of        map[netip.Addr]int
}

// take counts one more, and tells whether it is within the bounds.
func (r *rate) take(a netip.Addr, now time.Time) bool {
	if d := now.Sub(r.began); d >= time.Second || d < 0 {
		r.began, r.n = now, 0
		clear(r.of)
	}
	if r.n >= r.all || r.of[a] >= r.each {
		return false
	}
	if r.of == nil {
		r.of = make(map[netip.Addr]int)
	}
	r.n++
	r.of[a]++
	return true
}
