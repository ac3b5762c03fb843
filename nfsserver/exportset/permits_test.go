package exportset

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestPermitsShared checks that a file system may have half of all permits, and a client group
// half of the permits left to the file system.
func TestPermitsShared(t *testing.T) {
	var p permitPool
	p.init()
	var x, y permitCounts
	all := func(w *permitCounts, host int) (n int) {
		for p.tryPermit(w, p.counterFor(w, peerAt(host))) {
			n++
		}
		return n
	}
	hosts := make([]int, 0, 20) // with separate counters
	seen := make(map[*partyCounts]bool)
	for h := range 100 {
		if by := p.counterFor(&x, peerAt(h)); !seen[by] && len(hosts) < cap(hosts) {
			seen[by] = true
			hosts = append(hosts, h)
		}
	}
	assert.Equal(t, 256, all(&x, hosts[0]))
	assert.Equal(t, 128, all(&x, hosts[1]))
	assert.Equal(t, 160, all(&y, hosts[0]))
	for i, h := range hosts[2:] {
		n := all(&x, h)
		assert.True(t, i > 4 || n > 0, "five parties get permits")
	}
	assert.LessOrEqual(t, x.taken.Load(), int64(maxPermits/2))
	for range 20 {
		for _, h := range hosts {
			all(new(permitCounts), h)
			all(&y, h)
		}
	}
	assert.LessOrEqual(t, p.taken.Load(), int64(maxPermits), "for any number of file systems and parties")
}

// TestPermitsNotWanted checks that a call stops waiting for a permit when its
// context ends, or after stuckTime if wanted returns false.
func TestPermitsNotWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p permitPool
		p.init()
		var w permitCounts
		by := p.counterFor(&w, nil)
		for p.tryPermit(&w, by) {
		}
		taken := p.taken.Load()
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan bool)
		go func() { got <- p.acquirePermit(ctx, &w, by, func() bool { return true }) }()
		synctest.Wait()
		assert.EqualValues(t, 1, p.waiting.Load())
		cancel()
		assert.False(t, <-got)
		start := time.Now()
		assert.False(t, p.acquirePermit(t.Context(), &w, by, func() bool { return false }))
		assert.Equal(t, stuckTime, time.Since(start))
		assert.Zero(t, p.waiting.Load())
		assert.Equal(t, taken, p.taken.Load())
	})
}

// TestPermitsRace checks that no permit is lost and no waiting call is
// forgotten, in any order.
func TestPermitsRace(t *testing.T) {
	var p permitPool
	p.init()
	var fs [2]permitCounts
	var all sync.WaitGroup
	for i := range 700 {
		w := &fs[i%2]
		by := p.counterFor(w, peerAt(i%5))
		all.Go(func() {
			for range 5 {
				if assert.True(t, p.acquirePermit(t.Context(), w, by, func() bool { return true })) {
					p.releasePermit(w, by)
				}
			}
		})
	}
	all.Wait()
	assert.Zero(t, p.taken.Load())
	assert.Zero(t, p.waiting.Load())
	assert.Zero(t, p.queues.Len())
}
