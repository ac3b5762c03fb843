package loadgen

import (
	"math/bits"
	"time"
)

// steps is how many buckets each power of two has in a histogram. A quantile is
// exact to one sixteenth.
const steps = 16

// A histogram counts any number of times in constant memory.
type histogram struct {
	counts   [64 * steps]int64
	n        int64
	min, max time.Duration
}

// add counts a time.
func (h *histogram) add(d time.Duration) {
	h.counts[bucket(uint64(max(d, 0)))]++
	if h.n == 0 || d < h.min {
		h.min = d
	}
	h.n++
	h.max = max(h.max, d)
}

// bucket returns the bucket of a number of nanoseconds: its highest bit and the
// four bits below.
func bucket(ns uint64) int {
	if ns < steps {
		return int(ns)
	}
	shift := bits.Len64(ns) - 5
	return shift*steps + int(ns>>shift)
}

// top returns the largest number in a bucket.
func top(b int) uint64 {
	if b < 2*steps {
		return uint64(b)
	}
	shift := b/steps - 1
	return uint64(b%steps+steps+1)<<shift - 1
}

// merge adds the counts of other.
func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	if h.n == 0 || other.n > 0 && other.min < h.min {
		h.min = other.min
	}
	h.n += other.n
	h.max = max(h.max, other.max)
}

// quantile returns an upper bound of the q-quantile, at most one sixteenth too
// long.
func (h *histogram) quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	left := int64(rank(q, int(h.n)))
	for b, n := range h.counts {
		if left -= n; left <= 0 {
			return min(h.max, time.Duration(top(b)))
		}
	}
	return h.max
}

// barSteps is how many buckets a Bar has: there are four bars to a power of two.
const barSteps = steps / 4

// A Bar counts the calls that took From or longer, but less than To.
type Bar struct {
	From, To time.Duration
	Calls    int64
}

// bars returns the counts from the first call to the last, on a logarithmic scale.
func (h *histogram) bars() (all []Bar) {
	if h.n == 0 {
		return nil
	}
	first, last := bucket(uint64(max(h.min, 0)))/barSteps, bucket(uint64(h.max))/barSteps
	for b := first; b <= last; b++ {
		bar := Bar{To: time.Duration(top(b*barSteps+barSteps-1) + 1)}
		if b > 0 {
			bar.From = time.Duration(top(b*barSteps-1) + 1)
		}
		for _, n := range h.counts[b*barSteps : (b+1)*barSteps] {
			bar.Calls += n
		}
		all = append(all, bar)
	}
	return all
}

// Quantile returns the smallest of sorted times that is no shorter than the
// fraction q of them.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[rank(q, len(sorted))-1]
}

// rank returns the fraction q of n, rounded up.
func rank(q float64, n int) int {
	r := int(q * float64(n))
	if float64(r) < q*float64(n) {
		r++
	}
	return min(max(r, 1), n)
}
