package discover

import (
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// A rateLimit bounds the number of replies per second, in total, to each client
// group and to each address. The bounds also limit its memory.
type rateLimit struct {
	perSecond, perAddress int
	began                 time.Time // start of the second
	total                 int
	byAddress             map[netip.Addr]int
	byGroup               map[fairshare.Name]int
}

// allow reports whether another reply is within the bounds, and counts it.
func (r *rateLimit) allow(a netip.Addr, now time.Time) bool {
	if d := now.Sub(r.began); d >= time.Second || d < 0 {
		r.began, r.total = now, 0
		clear(r.byAddress)
		clear(r.byGroup)
	}
	party := fairshare.PartyOfIP(a)
	if r.total >= r.perSecond || r.byAddress[a] >= r.perAddress || r.byGroup[party] >= r.perSecond/groupShareDivisor {
		return false
	}
	if r.byAddress == nil {
		r.byAddress, r.byGroup = make(map[netip.Addr]int), make(map[fairshare.Name]int)
	}
	r.total++
	r.byAddress[a]++
	r.byGroup[party]++
	return true
}
