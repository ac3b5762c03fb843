package fusefs

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// counted makes s count the huge pages that it asks for, and fail with errno.
func (s *writeBuffers) counted(errno unix.Errno) *int {
	n := new(int)
	s.collapse = func(at uintptr) unix.Errno {
		*n++
		return errno
	}
	return n
}

// within returns memory of n bytes that begins in the middle of a huge page.
func within(n int) []byte {
	b := make([]byte, n+2*hugePage)
	begin := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (hugePage - 1)
	return b[begin+hugePage/2:][:n]
}

// TestWriteBuffers checks which memory is put into huge pages, and how often.
func TestWriteBuffers(t *testing.T) {
	s := newWriteBuffers()
	n := s.counted(0)
	p := within(hugePage)
	s.used(p[:minWriteBuffer-1])
	assert.Zero(t, *n, "short")
	s.used(p[:hugePage/2])
	assert.Equal(t, 1, *n)
	for range 3 {
		s.used(p)
		assert.Equal(t, 2, *n, "each huge page once")
	}
	s.rest()
	s.used(p)
	assert.Equal(t, 4, *n)
	s.used(within(maxWriteBuffers * hugePage))
	assert.Equal(t, 2+maxWriteBuffers, *n, "so many since rest")
}

// TestWriteBuffersRefused checks that a kernel that cannot is not asked again.
func TestWriteBuffersRefused(t *testing.T) {
	s := newWriteBuffers()
	n := s.counted(unix.EINVAL)
	s.used(within(hugePage))
	s.rest()
	s.used(within(hugePage))
	assert.Equal(t, 1, *n)
}

// TestWriteBuffersFragmented checks that a host without a huge page is asked once in ever
// more minutes, and as often as any other when it has one again.
func TestWriteBuffersFragmented(t *testing.T) {
	s, p := newWriteBuffers(), within(maxWriteBuffers*hugePage/2)
	minute := func(n *int) int {
		before := *n
		s.used(p)
		s.used(p)
		s.rest()
		return *n - before
	}
	n := s.counted(unix.EAGAIN)
	asked, last := 0, 0
	var gaps []int
	for at := range 24 * 60 {
		switch minute(n) {
		case 0:
		case 1:
			gaps, last = append(gaps, at-last), at
			asked++
		default:
			require.Fail(t, "more than once in a minute")
		}
	}
	assert.Equal(t, []int{0, 1, 2, 4, 8, 16, 32, 64, 64, 64}, gaps[:10])
	assert.Less(t, asked, 30, "in a day")

	n = s.counted(0)
	for s.left > 0 {
		assert.Zero(t, minute(n))
	}
	const pages = maxWriteBuffers/2 + 1
	assert.Equal(t, pages, minute(n))
	assert.Equal(t, pages, minute(n))
	n = s.counted(unix.ENOMEM)
	assert.Equal(t, []int{1, 1}, []int{minute(n), minute(n)}, "the pause begins anew")
}

// TestWriteBuffersKeepData checks that memory of the heap keeps its content.
func TestWriteBuffersKeepData(t *testing.T) {
	s := newWriteBuffers()
	p := bytes.Repeat([]byte("nfsrdma!"), hugePage/8)
	want := bytes.Clone(p)
	s.used(p)
	assert.True(t, bytes.Equal(want, p))
}
