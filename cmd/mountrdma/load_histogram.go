package main

import (
	"math/bits"
	"time"
)

// steps is how many parts each power of two has in a histogram, so that a
// quantile is right to a sixteenth.
const steps = 16

// A histogram counts times in little memory, however many there are.
type histogram struct {
	counts [64 * steps]int64
	n      int64
	max    time.Duration
}

// add counts a time.
func (h *histogram) add(d time.Duration) {
	h.counts[bucket(uint64(max(d, 0)))]++
	h.n++
	h.max = max(h.max, d)
}

// bucket returns where a number of nanoseconds is counted: by its highest bit
// and the four behind it.
func bucket(ns uint64) int {
	if ns < steps {
		return int(ns)
	}
	shift := bits.Len64(ns) - 5
	return shift*steps + int(ns>>shift)
}

// top returns the largest number that is counted in a bucket.
func top(b int) uint64 {
	if b < 2*steps {
		return uint64(b)
	}
	shift := b/steps - 1
	return uint64(b%steps+steps+1)<<shift - 1
}

// merge adds what another one has counted.
func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.max = max(h.max, other.max)
}

// quantile returns a time that q of all do not exceed, at most a sixteenth too
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
