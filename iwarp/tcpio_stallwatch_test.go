package iwarp

import (
	"os"
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
			w.begin(limit)
			time.Sleep(limit - time.Second)
			require.NoError(t, w.end())
			require.Empty(t, ended)
		}
		for range 2 {
			start := time.Now()
			w.begin(limit)
			<-ended
			assert.Equal(t, limit, time.Since(start))
			require.ErrorIs(t, w.end(), os.ErrDeadlineExceeded)
			require.NoError(t, w.end())
		}
		w.begin(0) // no limit
		time.Sleep(100 * limit)
		require.Empty(t, ended)
		require.NoError(t, w.end())
		w.begin(limit)
		w.stop()
		time.Sleep(2 * limit)
		require.Empty(t, ended)
	})
}
