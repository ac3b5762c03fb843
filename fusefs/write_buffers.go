package fusefs

import (
	"bytes"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// writeBuffers puts the memory of large WRITEs into huge pages: the kernel looks
// up each page to which it copies a request, which is fast within a huge page.
// The memory is go-fuse's, which uses a few buffers of Go's heap again and again.
// The other content of a huge page keeps its addresses, too, but pages that the
// heap has given back to the kernel become resident. A host whose memory is fragmented
// looks long for a huge page, and in vain: it is asked ever more rarely.
type writeBuffers struct {
	collapse func(at uintptr) unix.Errno // of one huge page; nil: the host permits none

	mu    sync.Mutex
	tried map[uintptr]struct{} // addresses of huge pages, since rest
	pause int                  // how many calls of rest the last failure lasts; 0: success
	left  int                  // how many of them are left
}

func newWriteBuffers() *writeBuffers {
	s := &writeBuffers{tried: make(map[uintptr]struct{})}
	enabled, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err == nil && !bytes.Contains(enabled, []byte("[never]")) && os.Getpagesize() == smallPage {
		s.collapse = collapse
	}
	return s
}

// collapse makes a huge page of the pages at an address (madvise(2), Linux 6.1).
func collapse(at uintptr) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, at, hugePage, unix.MADV_COLLAPSE)
	return errno
}

// used is called with the memory of each WRITE.
func (s *writeBuffers) used(p []byte) {
	if len(p) < minWriteBuffer {
		return
	}
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	for at := begin &^ (hugePage - 1); at < begin+uintptr(len(p)); at += hugePage {
		if do := s.first(at); do != nil {
			s.ended(do(at))
		}
	}
}

// ended learns how a collapse has ended.
func (s *writeBuffers) ended(errno unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errno == 0:
		s.pause = 0
	case errno == unix.EINVAL:
		s.collapse = nil // an older kernel, or one that must not
	case s.left == 0: // otherwise one that ran beside has failed, too
		s.pause = min(max(2*s.pause, 1), maxWritePause)
		s.left = s.pause
	}
}

// first returns collapse at the first use of an address since rest, otherwise nil. During
// a pause after a failure it returns nil.
func (s *writeBuffers) first(at uintptr) func(at uintptr) unix.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.tried[at]; found || s.collapse == nil || s.left > 0 || len(s.tried) == maxWriteBuffers {
		return nil
	}
	s.tried[at] = struct{}{}
	return s.collapse
}

// rest is called once a minute. It lets all addresses be tried again: memory that was
// given back to the kernel meanwhile is in small pages.
func (s *writeBuffers) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tried)
	s.left = max(s.left-1, 0)
}
