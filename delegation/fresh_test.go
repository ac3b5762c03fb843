package delegation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestUnchanged(t *testing.T) {
	st := Stamp{Size: 1, MTime: 2, CTime: 3_000_000_000}
	over := st.CTime + int64(clockStep)
	assert.True(t, Unchanged(st, st, over))
	assert.False(t, Unchanged(st, st, over-1), "within the step of the clock")
	assert.False(t, Unchanged(st, st, 0), "the clock offset is unknown")
	for _, other := range []Stamp{{2, 2, st.CTime}, {1, 3, st.CTime}, {1, 2, st.CTime - 1}} {
		assert.False(t, Unchanged(other, st, over), other)
	}
}

func TestServerClock(t *testing.T) {
	var c ServerClock
	assert.Zero(t, c.Reads(time.Hour))
	const stamp = 1_700_000_000_000_000_000
	c.Saw(stamp, time.Hour)
	assert.EqualValues(t, stamp, c.Reads(time.Hour))
	c.Saw(stamp-5, time.Hour)
	assert.EqualValues(t, stamp, c.Reads(time.Hour), "of an older file")
	assert.EqualValues(t, stamp+time.Second-time.Millisecond, c.Reads(time.Hour+time.Second), "a clock may be slow")
	c.Saw(stamp+int64(time.Second), time.Hour+time.Second)
	assert.EqualValues(t, stamp+time.Second, c.Reads(time.Hour+time.Second))
}

// TestTrustsDoesNotAllocate checks that the check made for every read does not
// allocate.
func TestTrustsDoesNotAllocate(t *testing.T) {
	h := newTestHolder(t)
	d := holdGrant(t, h, 1, 1, 0)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if !h.Trusts(d, 0) {
			t.Error("it is held")
		}
	}))
	// A use that needs an atomic operation does not allocate either.
	var op Op
	h.Close(d, &op, 0)
	h.Answered(&op, uint64(makeWord(1, 1)), 0)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		h.Open(d, &op, 0)
		v, _ := h.Answered(&op, uint64(makeWord(1, 0)), 0)
		if v != Serve || !h.Close(d, &op, 0) {
			t.Error("it is open")
		}
		h.Answered(&op, uint64(makeWord(1, 1)), 0)
	}))
}

func BenchmarkTrusts(b *testing.B) {
	h := NewHolder(2)
	a, _ := h.BeginAcquire(new(Op), 0)
	d, _, err := h.Granted(a, grantedRes(1, 1))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		h.Trusts(d, 0)
	}
}
