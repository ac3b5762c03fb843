package fusefs

import (
	"sync"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// readBuffers is memory for the data of large READs, in huge pages: the kernel
// looks up each page that it copies, which is fast within a huge page. The zero
// value is ready to use.
type readBuffers struct {
	mu   sync.Mutex
	mem  []byte        // mapped, or nil
	free []*readBuffer // the last element's memory is in the processor's cache
	used bool          // since the last unmapIdle
}

// A readBuffer is memory for one READ's data, until the kernel has them. As a
// fuse.ReadResult, it has n bytes. Because it has Slices, go-fuse writes directly
// from its memory, and then calls Done. go-fuse never calls Done for an empty
// result.
type readBuffer struct {
	pool *readBuffers
	mem  []byte
	n    int
	data [1][]byte // returned by Slices
}

// get returns memory for n bytes, or nil if go-fuse's own memory is as good, or no
// buffer is free. The caller must call Done, or leave that to go-fuse.
func (s *readBuffers) get(n int) *readBuffer {
	if n < minReadBuffer || n > maxTransfer {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = true
	if s.mem == nil {
		s.mapMemory()
	}
	last := len(s.free) - 1
	if last < 0 {
		return nil
	}
	r := s.free[last]
	s.free = s.free[:last]
	return r
}

// mapMemory maps the memory, if the system has enough.
func (s *readBuffers) mapMemory() {
	mem, err := unix.Mmap(-1, 0, readBufferSpace+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // failure only leaves the pages small
	s.mem = mem
	begin := -uintptr(unsafe.Pointer(unsafe.SliceData(mem))) & (hugePage - 1)
	for unused := mem[begin:][:readBufferSpace]; len(unused) > 0; unused = unused[maxTransfer:] {
		s.free = append(s.free, &readBuffer{pool: s, mem: unused[:maxTransfer:maxTransfer]})
	}
}

// unmapIdle unmaps the memory if it was not used since the last unmapIdle.
func (s *readBuffers) unmapIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.used && len(s.free) == readBufferSpace/maxTransfer {
		s.unmapMemory()
	}
	s.used = false
}

// close unmaps the memory. No READ may be in flight.
func (s *readBuffers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unmapMemory()
}

func (s *readBuffers) unmapMemory() {
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
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.pool.free = append(r.pool.free, r)
}
