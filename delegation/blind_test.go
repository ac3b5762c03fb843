package delegation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBlind checks that nothing is granted during a blind change, and that no
// change is blind while any object is held, asked for, or known to be changing.
func TestBlind(t *testing.T) {
	g := newTestGrantor(t, Config{})
	c, _ := attachConn(g, 1)
	var ch, other Change
	require.True(t, g.Blind(&ch))
	require.True(t, g.Blind(&other))
	assert.Equal(t, ReasonContended, prepareReason(g, c, "a", 0))
	g.Done(&other)
	assert.Equal(t, ReasonContended, prepareReason(g, c, "a", lease-1))
	g.Done(&ch)
	g.Done(&ch)
	assert.Zero(t, prepareReason(g, c, "a", lease-1))

	assert.False(t, g.Blind(&ch), "a refused ACQUIRE will be repeated")
	g.Tick(lease - 1)
	assert.False(t, g.Blind(&ch))
	g.Tick(lease)
	require.True(t, g.Blind(&ch))
	g.Done(&ch)

	a, why, _ := g.Prepare(c, []byte("a"), 0)
	require.Zero(t, why)
	assert.False(t, g.Blind(&ch), "requested")
	gt, why, _ := g.Commit(a, 0)
	require.Zero(t, why)
	g.Replied(c, gt)
	assert.False(t, g.Blind(&ch), "held")
	g.Change(&other, c, []byte("a"), 0)
	g.Disconnect(c, true, 0)
	assert.False(t, g.Blind(&ch), "changed")
	g.Done(&other)
	assert.True(t, g.Blind(&ch))
	g.Done(&ch)
	assert.Zero(t, g.total.counts.Load())
	assert.True(t, (*Grantor)(nil).Blind(&ch))
}
