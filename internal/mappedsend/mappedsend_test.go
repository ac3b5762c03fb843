package mappedsend

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestBound checks the bound, and that a caller waits until it may send or has
// ended.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := range Most {
			assert.Equal(t, n > Most/2, IsCrowded(), n)
			assert.True(t, Enter())
		}
		assert.False(t, Enter())
		assert.EqualValues(t, Most, callCount.Load())
		end, asked := time.Now().Add(time.Minute), 0
		assert.False(t, Await(func() bool { asked++; return time.Now().After(end) }))
		assert.Less(t, asked, 200, "thousands of connections may wait")
		time.AfterFunc(time.Minute, Leave)
		assert.True(t, Await(func() bool { return false }))
		for range Most {
			Leave()
		}
		assert.Zero(t, callCount.Load())
	})
}
