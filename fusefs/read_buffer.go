package fusefs

import (
	"sync"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// readBuffers is memory for the data of large READs, in huge pages: the kernel
// looks up each page that it takes over, which is fast within a huge page. The
// zero value is ready to use.
type readBuffers struct {
	mu   sync.Mutex
	mem  []byte        // mapped, or nil
	free []*readBuffer // the memory of the last is in the processor's cache
	used bool          // since rest
}

// A readBuffer is memory for the data of one READ, until the kernel has them.
// As a fuse.ReadResult, it has n bytes. Because it has Slices, go-fuse writes
// directly from its memory, and then calls Done. go-fuse never calls Done for
// an empty result.
type readBuffer struct {
	of   *readBuffers
	mem  []byte
	n    int
	data [1][]byte // result of Slices
}

// get returns memory for n bytes, or nil if go-fuse's own memory is as good, or
// none is free. The caller must call Done, or leave that to go-fuse.
func (s *readBuffers) get(n int) *readBuffer {
	if n < minReadBuffer || n > maxTransfer {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = true
	if s.mem == nil {
		s.fill()
	}
	last := len(s.free) - 1
	if last < 0 {
		return nil
	}
	r := s.free[last]
	s.free = s.free[:last]
	return r
}

// fill maps the memory, if the system has enough.
func (s *readBuffers) fill() {
	mem, err := unix.Mmap(-1, 0, readBufferRoom+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // failure only leaves the pages small
	s.mem = mem
	begin := -uintptr(unsafe.Pointer(unsafe.SliceData(mem))) & (hugePage - 1)
	for room := mem[begin:][:readBufferRoom]; len(room) > 0; room = room[maxTransfer:] {
		s.free = append(s.free, &readBuffer{of: s, mem: room[:maxTransfer:maxTransfer]})
	}
}

// rest unmaps the memory if it was not used since the last rest.
func (s *readBuffers) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.used && len(s.free) == readBufferRoom/maxTransfer {
		s.drop()
	}
	s.used = false
}

// close unmaps the memory. No READ may be under way.
func (s *readBuffers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
}

func (s *readBuffers) drop() {
	if s.mem != nil {
		_ = unix.Munmap(s.mem)
	}
	s.mem, s.free = nil, nil
}

// Bytes implements fuse.ReadResult.
func (r *readBuffer) Bytes([]byte) ([]byte, fuse.Status) { return r.mem[:r.n], fuse.OK }

// Slices returns the data for one writev(2).
func (r *readBuffer) Slices() ([][]byte, fuse.Status) {
	r.data[0] = r.mem[:r.n]
	return r.data[:], fuse.OK
}

// Size implements fuse.ReadResult.
func (r *readBuffer) Size() int { return r.n }

// Done implements fuse.ReadResult. The memory is free for reuse.
func (r *readBuffer) Done() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.free = append(r.of.free, r)
}
