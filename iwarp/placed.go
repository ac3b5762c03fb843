package iwarp

import (
	"cmp"
	"slices"
)

// A placed records the parts of a region that peers have written:
//
//	0        whole      apart[0]     apart[1]
//	════════════╡      ╞════════╡   ╞════╡
//
// Most peers write from the first byte on, so that only whole is used.
type placed struct {
	whole uint64
	apart []span // in order, at most maxApart
}

// A span is a range of bytes.
type span struct{ from, to uint64 }

// add notes that the bytes of s are written. If they would exceed maxApart,
// they are not recorded.
func (p *placed) add(s span) {
	if s.from <= p.whole {
		p.whole = max(p.whole, s.to)
		for len(p.apart) > 0 && p.apart[0].from <= p.whole {
			p.whole = max(p.whole, p.apart[0].to)
			p.apart = slices.Delete(p.apart, 0, 1)
		}
		return
	}
	first, _ := slices.BinarySearchFunc(p.apart, s.from, func(s span, at uint64) int { return cmp.Compare(s.to, at) })
	behind := first
	for ; behind < len(p.apart) && p.apart[behind].from <= s.to; behind++ {
		s.from = min(s.from, p.apart[behind].from)
		s.to = max(s.to, p.apart[behind].to)
	}
	if first < behind || len(p.apart) < maxApart {
		p.apart = slices.Replace(p.apart, first, behind, s)
	}
}

// Placed reports whether the peers have written the first n bytes
// (rdma.Placer).
func (r *region) Placed(n int) bool {
	if r.domain == nil {
		return r.placed.whole >= uint64(n)
	}
	var all placed
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.views {
		all.add(span{0, v.placed.whole})
		for _, s := range v.placed.apart {
			all.add(s)
		}
	}
	return all.whole >= uint64(n)
}
