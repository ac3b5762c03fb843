package iwarp

import (
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStallWatch checks that a wait ends when it reaches its limit, no matter
// how many shorter waits preceded it.
func TestStallWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * time.Second
		var w stallWatch
		ended := make(chan struct{}, 1)
		w.init(func() { ended <- struct{}{} })
		for range 20 {
			w.beginWait(limit)
			time.Sleep(limit - time.Second)
			require.NoError(t, w.endWait())
			require.Empty(t, ended)
		}
		for range 2 {
			start := time.Now()
			w.beginWait(limit)
			<-ended
			assert.Equal(t, limit, time.Since(start))
			require.ErrorIs(t, w.endWait(), os.ErrDeadlineExceeded)
			require.NoError(t, w.endWait())
		}
		w.beginWait(0) // no limit
		time.Sleep(100 * limit)
		require.Empty(t, ended)
		require.NoError(t, w.endWait())
		w.beginWait(limit)
		w.stop()
		time.Sleep(2 * limit)
		require.Empty(t, ended)
	})
}

// TestAlone checks that a link may wait on a thread if few other links have
// waited since its last wait, and may not if many have.
func TestAlone(t *testing.T) {
	var turns waitCount
	var own, other uint64
	turns.countWait(&own)
	others := func(n int) {
		for range n {
			turns.countWait(&other)
		}
	}
	assert.True(t, turns.countWait(&own))
	others(runtime.GOMAXPROCS(0) - 1)
	assert.True(t, turns.countWait(&own))
	others(runtime.GOMAXPROCS(0))
	assert.False(t, turns.countWait(&own))
	assert.True(t, turns.countWait(&own), "the others rest again")
}

// TestMaxLookers checks that more Ps than the process may use processors, as a mount has, do
// not let more goroutines poll busily.
func TestMaxLookers(t *testing.T) {
	defer func(ps, n int) {
		runtime.GOMAXPROCS(ps)
		processors = n
	}(runtime.GOMAXPROCS(0), processors)
	for _, tt := range []struct{ processors, ps, want int }{{1, 1, 1}, {2, 8, 1}, {6, 8, 3}, {64, 8, 4}, {8, 2, 1}} {
		processors = tt.processors
		runtime.GOMAXPROCS(tt.ps)
		assert.Equal(t, tt.want, maxBusyPollers(), tt)
	}
}
