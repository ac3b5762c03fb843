package loadgen

import (
	"math/bits"
	"time"
)

// bucketsPerDoubling is the histogram's bucket count for each power of two. A
// quantile is exact to one sixteenth.
const bucketsPerDoubling = 16

// A histogram counts any number of durations in constant memory.
type histogram struct {
	counts   [64 * bucketsPerDoubling]int64
	n        int64
	min, max time.Duration
}

// add counts a duration.
func (h *histogram) add(d time.Duration) {
	h.counts[bucketIndex(uint64(max(d, 0)))]++
	if h.n == 0 || d < h.min {
		h.min = d
	}
	h.n++
	h.max = max(h.max, d)
}

// bucketIndex returns the bucket for a time in nanoseconds: its highest bit and the
// four bits below.
func bucketIndex(ns uint64) int {
	if ns < bucketsPerDoubling {
		return int(ns)
	}
	shift := bits.Len64(ns) - 5
	return shift*bucketsPerDoubling + int(ns>>shift)
}

// bucketMax returns the largest number in a bucket.
func bucketMax(b int) uint64 {
	if b < 2*bucketsPerDoubling {
		return uint64(b)
	}
	shift := b/bucketsPerDoubling - 1
	return uint64(b%bucketsPerDoubling+bucketsPerDoubling+1)<<shift - 1
}

// merge adds other's counts.
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

// quantile returns an upper bound for the q-quantile, at most one sixteenth too
// long.
func (h *histogram) quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	left := int64(quantileRank(q, int(h.n)))
	for b, n := range h.counts {
		if left -= n; left <= 0 {
			return min(h.max, time.Duration(bucketMax(b)))
		}
	}
	return h.max
}

// bucketsPerBar is the bucket count in a Bar: there are four bars for each power of
// two.
const bucketsPerBar = bucketsPerDoubling / 4

// A Bar counts the calls that took From or longer, but less than To.
type Bar struct {
	From, To time.Duration
	Calls    int64
}

// toBars returns the counts from the first call to the last, on a logarithmic scale.
func (h *histogram) toBars() (all []Bar) {
	if h.n == 0 {
		return nil
	}
	first, last := bucketIndex(uint64(max(h.min, 0)))/bucketsPerBar, bucketIndex(uint64(h.max))/bucketsPerBar
	for b := first; b <= last; b++ {
		bar := Bar{To: time.Duration(bucketMax(b*bucketsPerBar+bucketsPerBar-1) + 1)}
		if b > 0 {
			bar.From = time.Duration(bucketMax(b*bucketsPerBar-1) + 1)
		}
		for _, n := range h.counts[b*bucketsPerBar : (b+1)*bucketsPerBar] {
			bar.Calls += n
		}
		all = append(all, bar)
	}
	return all
}

// Quantile returns the smallest of the sorted times that is at least as long as a
// fraction q.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[quantileRank(q, len(sorted))-1]
}

// quantileRank returns the fraction q of n, rounded up.
func quantileRank(q float64, n int) int {
	r := int(q * float64(n))
	if float64(r) < q*float64(n) {
		r++
	}
	return min(max(r, 1), n)
}
