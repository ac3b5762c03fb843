package iwarp

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAlone checks that a link may wait on a thread if few other links have
// waited since its last wait, and may not if many have.
func TestAlone(t *testing.T) {
	var turns turnCount
	var own, other uint64
	turns.alone(&own)
	others := func(n int) {
		for range n {
			turns.alone(&other)
		}
	}
	assert.True(t, turns.alone(&own))
	others(runtime.GOMAXPROCS(0) - 1)
	assert.True(t, turns.alone(&own))
	others(runtime.GOMAXPROCS(0))
	assert.False(t, turns.alone(&own))
	assert.True(t, turns.alone(&own), "the others rest again")
}
