package fusefs

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// countCollapses makes s count the huge pages that it asks for, and fail with errno.
func (s *writeBuffers) countCollapses(errno unix.Errno) *int {
	n := new(int)
	s.collapse = func(at uintptr) unix.Errno {
		*n++
		return errno
	}
	return n
}

// unalignedMemory returns memory of n bytes that begins in the middle of a huge page.
func unalignedMemory(n int) []byte {
	b := make([]byte, n+2*hugePage)
	begin := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (hugePage - 1)
	return b[begin+hugePage/2:][:n]
}

// TestWriteBuffers checks which memory is put into huge pages, and how often.
func TestWriteBuffers(t *testing.T) {
	s := newWriteBuffers()
	n := s.countCollapses(0)
	p := unalignedMemory(hugePage)
	s.collapseMemory(p[:minWriteBuffer-1])
	assert.Zero(t, *n, "short")
	s.collapseMemory(p[:hugePage/2])
	assert.Equal(t, 1, *n)
	for range 3 {
		s.collapseMemory(p)
		assert.Equal(t, 2, *n, "each huge page once")
	}
	s.startMinute()
	s.collapseMemory(p)
	assert.Equal(t, 4, *n)
	s.collapseMemory(unalignedMemory(maxWriteBuffers * hugePage))
	assert.Equal(t, 2+maxWriteBuffers, *n, "so many since rest")
}

// TestWriteBuffersRefused checks that a kernel without support gets no second
// request.
func TestWriteBuffersRefused(t *testing.T) {
	s := newWriteBuffers()
	n := s.countCollapses(unix.EINVAL)
	s.collapseMemory(unalignedMemory(hugePage))
	s.startMinute()
	s.collapseMemory(unalignedMemory(hugePage))
	assert.Equal(t, 1, *n)
}

// TestWriteBuffersFragmented checks that a host without a huge page is tried at
// growing intervals, and at the normal rate once it has one again.
func TestWriteBuffersFragmented(t *testing.T) {
	s, p := newWriteBuffers(), unalignedMemory(maxWriteBuffers*hugePage/2)
	minute := func(n *int) int {
		before := *n
		s.collapseMemory(p)
		s.collapseMemory(p)
		s.startMinute()
		return *n - before
	}
	n := s.countCollapses(unix.EAGAIN)
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

	n = s.countCollapses(0)
	for s.pauseLeft > 0 {
		assert.Zero(t, minute(n))
	}
	const pages = maxWriteBuffers/2 + 1
	assert.Equal(t, pages, minute(n))
	assert.Equal(t, pages, minute(n))
	n = s.countCollapses(unix.ENOMEM)
	assert.Equal(t, []int{1, 1}, []int{minute(n), minute(n)}, "the pause begins anew")
}

// TestWriteBuffersKeepData checks that memory of the heap keeps its content.
func TestWriteBuffersKeepData(t *testing.T) {
	s := newWriteBuffers()
	p := bytes.Repeat([]byte("nfsrdma!"), hugePage/8)
	want := bytes.Clone(p)
	s.collapseMemory(p)
	assert.True(t, bytes.Equal(want, p))
}
