package fusefs

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAbsent checks that a node remembers missing names under one grant only.
func TestAbsent(t *testing.T) {
	var n node
	assert.Zero(t, n.lacks("a", sight{began: 9}), "it is not held")
	assert.False(t, n.lacking("a", 0))
	n.grant = 5
	assert.Zero(t, n.lacks("a", sight{began: 4}), "seen before the grant")
	assert.EqualValues(t, 5, n.lacks("a", sight{began: 5}))
	assert.True(t, n.lacking("a", 5))
	assert.False(t, n.lacking("a", 0))
	assert.False(t, n.lacking("b", 5))
	n.mayHave("a")
	assert.False(t, n.lacking("a", 5))

	n.changed = 7
	assert.Zero(t, n.lacks("a", sight{began: 7}), "perhaps seen before a change of ours")
	assert.EqualValues(t, 5, n.lacks("a", sight{began: 7, made: true}), "by that change")
	n.grant = 8
	assert.False(t, n.lacking("a", 8), "seen under another grant")
	assert.EqualValues(t, 8, n.lacks("b", sight{began: 8}))
	assert.False(t, n.lacking("a", 8))
	assert.True(t, n.lacking("b", 8))
}
