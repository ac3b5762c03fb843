package loadgen

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestBuckets checks that buckets follow each other without a gap, and are
// narrow.
func TestBuckets(t *testing.T) {
	next := uint64(0)
	for b := range 60 * bucketsPerDoubling {
		assert.Equal(t, b, bucketIndex(next), b)
		assert.Equal(t, b, bucketIndex(bucketMax(b)), b)
		assert.LessOrEqual(t, bucketMax(b)-next, next/bucketsPerDoubling, b)
		next = bucketMax(b) + 1
	}
}

func TestQuantile(t *testing.T) {
	var h, other histogram
	assert.Zero(t, h.quantile(0.5))
	assert.Empty(t, h.toBars())
	var all []time.Duration
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 10_001 {
		d := time.Duration(r.ExpFloat64() * 1e6)
		all = append(all, d)
		if i%2 == 0 {
			h.add(d)
		} else {
			other.add(d)
		}
	}
	h.merge(&other)
	slices.Sort(all)
	for _, q := range []float64{0, 0.001, 0.5, 0.99, 0.9999, 1} {
		exact := Quantile(all, q)
		assert.GreaterOrEqual(t, h.quantile(q), exact, q)
		assert.LessOrEqual(t, h.quantile(q), exact+exact/bucketsPerDoubling, q)
	}
	assert.Equal(t, all[10_000], h.max)
	assert.Equal(t, all[0], h.min)
	assert.Equal(t, h.max, h.quantile(1))
	assert.Equal(t, all[0], Quantile(all, 0))
	assert.Equal(t, all[5000], Quantile(all, 0.5))
}

// TestBars checks that bars follow each other without a gap, from the first call to
// the last, and have all calls.
func TestBars(t *testing.T) {
	var h histogram
	all := []time.Duration{3, 700, 701, 90 * time.Microsecond, 2 * time.Hour}
	for _, d := range all {
		h.add(d)
	}
	bars := h.toBars()
	assert.LessOrEqual(t, bars[0].From, all[0])
	assert.LessOrEqual(t, bars[len(bars)-1].From, all[4])
	assert.Greater(t, bars[len(bars)-1].To, all[4])
	for i, b := range bars {
		if i > 0 {
			assert.Equal(t, bars[i-1].To, b.From)
		}
		calls := 0
		for _, d := range all {
			if b.From <= d && d < b.To {
				calls++
			}
		}
		assert.EqualValues(t, calls, b.Calls, b)
		if b.From >= bucketsPerDoubling {
			assert.LessOrEqual(t, float64(b.To), float64(b.From)*1.25)
		}
	}
}

// TestAddAllocates checks that a call is counted without an allocation.
func TestAddAllocates(t *testing.T) {
	var h histogram
	assert.Zero(t, testing.AllocsPerRun(100, func() { h.add(time.Millisecond) }))
}
