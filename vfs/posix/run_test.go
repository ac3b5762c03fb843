//go:build linux

package posix

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMapRun checks that short blocks are lent only to a client that reads one
// after the other, though not quite in order.
func TestMapRun(t *testing.T) {
	r := newWindowTest(t)
	const block = minMappedInRun
	lent := func(i int) bool {
		t.Helper()
		off := uint64(i * block)
		b, _ := r.mapped(off, block)
		if b == nil {
			return false
		}
		defer b.Release()
		assert.True(t, bytes.Equal(r.data[off:off+block], b.B), i)
		return true
	}
	far := windowLen / block
	open := r.f.cache.fds.Load()
	for i := range 3 * longRun {
		assert.False(t, lent(i%2*far), "here and there")
	}
	assert.Equal(t, open, r.f.cache.fds.Load(), "a READ opens the file, and Map before it did too")
	for i := range 3 * longRun {
		assert.Equal(t, i >= longRun-1, lent(i^1), i) // the first is far from the last
	}
	b, _ := r.mapped(0, block-1)
	assert.Nil(t, b, "few")
	assert.True(t, lent(0))
	assert.False(t, lent(far), "elsewhere")
}

// TestAhead checks that the answer for the pages ahead counts as long as the
// file does not change, for a moment.
func TestAhead(t *testing.T) {
	r := newWindowTest(t)
	const block = minMapped
	lent := func(i int) bool {
		b, _ := r.mapped(uint64(i*block), block)
		if b != nil {
			b.Release()
		}
		return b != nil
	}
	require.True(t, lent(0))
	require.True(t, lent(1))
	o := r.f.cache.getObject(r.h)
	defer r.f.putObject(o)
	w := o.windows[0]
	assert.Equal(t, [2]int{0, 2 * aheadLen}, [2]int{w.ahead.from, w.ahead.to})

	later := time.Now().Add(time.Hour)
	w.ahead.at = later
	for _, i := range []int{3, 2, 7} {
		assert.True(t, lent(i))
		assert.Equal(t, later, w.ahead.at, "the kernel was asked again")
	}
	assert.True(t, lent(8))
	assert.NotEqual(t, later, w.ahead.at, "beyond what is known")
	earlier := later.Add(-2 * time.Hour)
	w.ahead.at = earlier
	assert.True(t, lent(9))
	assert.NotEqual(t, earlier, w.ahead.at, "too old")

	w.ahead.at = later
	f, err := os.OpenFile(r.s.path("f"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 10*block, block))
	before := used(t, r.s.path("f"))
	assert.False(t, lent(10), "a hole")
	assert.True(t, lent(9), "before the hole")
	assert.True(t, lent(11), "behind the hole")
	assert.False(t, lent(10), "the hole is not in what is known")
	assert.Equal(t, before, used(t, r.s.path("f")))
}
