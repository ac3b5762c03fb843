package tenure

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOver checks when a tenure ends.
func TestOver(t *testing.T) {
	var none *Tenure
	assert.False(t, none.Over())
	assert.NoError(t, none.Check())
	assert.Negative(t, none.Left())
	none.End()
	assert.False(t, new(Tenure).Over(), "the zero value never ends")

	word := Now() + int64(time.Hour)
	held := New(&word)
	assert.False(t, held.Over())
	assert.Greater(t, held.Left(), 59*time.Minute)
	assert.True(t, held.Extend(word+int64(time.Hour)))
	assert.Greater(t, held.Left(), 119*time.Minute)
	assert.True(t, held.Extend(Now()), "an earlier end changes nothing")
	assert.Greater(t, held.Left(), 119*time.Minute)

	atomic.StoreInt64(&word, Now())
	assert.True(t, held.Over())
	assert.ErrorIs(t, held.Check(), ErrOver)
	assert.Zero(t, held.Left())
	assert.False(t, held.Extend(Now()+int64(time.Hour)), "it never begins again")
	assert.True(t, held.Over())

	word = Now() + int64(time.Hour)
	held.End()
	assert.False(t, held.Extend(Now()+int64(time.Hour)))
	assert.True(t, held.Over())
}

// TestSuspend checks that a suspend ends a tenure, although CLOCK_MONOTONIC does not count it: the
// offsets are as they were before a suspend of an hour.
func TestSuspend(t *testing.T) {
	const hour = int64(time.Hour)
	word := Now() + hour/2 // the process believes that the suspended hour is still to come
	held := New(&word)
	require.False(t, held.Over())
	mono, offset := readClocks()
	before := Now() - hour
	held.clock.last.Store(&clockOffsets{real: offset - hour, boot: before - mono})
	atomic.StoreInt64(&word, before+hour/2)
	assert.True(t, held.Over())
	held.clock.last.Store(&clockOffsets{real: offset, boot: before - mono})
	assert.False(t, held.Over(), "the clock of the test shows no suspend")
}

// TestClock checks that the clock agrees with the system call, from the cached offsets too.
func TestClock(t *testing.T) {
	var c bootClock
	for range 100 {
		before := Now()
		got := c.now()
		assert.GreaterOrEqual(t, got, before-maxOffsetNoise)
		assert.LessOrEqual(t, got, Now()+maxOffsetNoise)
	}
}

// BenchmarkOver measures a gate.
func BenchmarkOver(b *testing.B) {
	word := Now() + int64(time.Hour)
	held := New(&word)
	for b.Loop() {
		if held.Over() {
			b.Fatal("over")
		}
	}
}
