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
	for b := range 60 * steps {
		assert.Equal(t, b, bucket(next), b)
		assert.Equal(t, b, bucket(top(b)), b)
		assert.LessOrEqual(t, top(b)-next, next/steps, b)
		next = top(b) + 1
	}
}

func TestQuantile(t *testing.T) {
	var h, other histogram
	assert.Zero(t, h.quantile(0.5))
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
		assert.LessOrEqual(t, h.quantile(q), exact+exact/steps, q)
	}
	assert.Equal(t, all[10_000], h.max)
	assert.Equal(t, h.max, h.quantile(1))
	assert.Equal(t, all[0], Quantile(all, 0))
	assert.Equal(t, all[5000], Quantile(all, 0.5))
}
