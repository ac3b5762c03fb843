package rpcrdma

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// However slow the processor is, some calls are too slow for a reader; and where it
// takes no time at all, as many as on a usual one.
func TestSlowness(t *testing.T) {
	n := slowness()
	assert.GreaterOrEqual(t, n, 1)
	assert.LessOrEqual(t, n, maxSlowness)
	synctest.Test(t, func(t *testing.T) { assert.Equal(t, 1, slowness()) })
}
