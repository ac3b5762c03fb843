package fusefs

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
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
	n := s.counted(unix.EAGAIN)
	p := within(hugePage)
	s.used(p[:minWriteBuffer-1])
	assert.Zero(t, *n, "short")
	s.used(p[:hugePage/2])
	assert.Equal(t, 1, *n)
	for range 3 {
		s.used(p)
		assert.Equal(t, 2, *n, "each huge page once, whether it succeeds or not")
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

// TestWriteBuffersKeepData checks that memory of the heap keeps its content.
func TestWriteBuffersKeepData(t *testing.T) {
	s := newWriteBuffers()
	p := bytes.Repeat([]byte("nfsrdma!"), hugePage/8)
	want := bytes.Clone(p)
	s.used(p)
	assert.True(t, bytes.Equal(want, p))
}
