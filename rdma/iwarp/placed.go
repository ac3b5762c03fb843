package iwarp

import (
	"cmp"
	"slices"
)

// writtenRanges records which parts of a region peers have written:
//
//	0       prefix   separate[0]  separate[1]
//	════════════╡      ╞════════╡   ╞════╡
//
// Most peers write sequentially from the first byte, so that only prefix is
// used.
type writtenRanges struct {
	prefix   uint64
	separate []byteRange // in order, at most maxSeparate
}

// A byteRange is the half-open byte range [from, to).
type byteRange struct{ from, to uint64 }

// addRange records s as written. A range that would exceed maxSeparate is not recorded.
func (p *writtenRanges) addRange(s byteRange) {
	if s.from <= p.prefix {
		p.prefix = max(p.prefix, s.to)
		for len(p.separate) > 0 && p.separate[0].from <= p.prefix {
			p.prefix = max(p.prefix, p.separate[0].to)
			p.separate = slices.Delete(p.separate, 0, 1)
		}
		return
	}
	first, _ := slices.BinarySearchFunc(p.separate, s.from, func(s byteRange, at uint64) int { return cmp.Compare(s.to, at) })
	behind := first
	for ; behind < len(p.separate) && p.separate[behind].from <= s.to; behind++ {
		s.from = min(s.from, p.separate[behind].from)
		s.to = max(s.to, p.separate[behind].to)
	}
	if first < behind || len(p.separate) < maxSeparate {
		p.separate = slices.Replace(p.separate, first, behind, s)
	}
}

// Placed reports whether the peers have written the first n bytes
// (rdma.Placer).
func (r *region) Placed(n int) bool {
	if r.domain == nil {
		return r.written.prefix >= uint64(n)
	}
	var all writtenRanges
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.views {
		all.addRange(byteRange{0, v.written.prefix})
		for _, s := range v.written.separate {
			all.addRange(s)
		}
	}
	return all.prefix >= uint64(n)
}
