package fusefs

import (
	"bytes"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// writeBuffers puts the memory of large WRITEs into huge pages: the kernel looks up
// each page to which it copies a request, which is fast within a huge page. The
// memory is go-fuse's, which reuses a few buffers from Go's heap. The other content
// of a huge page keeps its addresses, too, but pages that the heap has returned to
// the kernel become resident. A host whose memory is fragmented searches long for a
// huge page, without success: the attempts become ever rarer.
type writeBuffers struct {
	collapse func(at uintptr) unix.Errno // makes one huge page; nil: the host permits none

	mu        sync.Mutex
	tried     map[uintptr]struct{} // addresses of huge pages, since startMinute
	pause     int                  // number of startMinute calls for which the last failure counts; 0: success
	pauseLeft int                  // how many of them remain
}

func newWriteBuffers() *writeBuffers {
	s := &writeBuffers{tried: make(map[uintptr]struct{})}
	enabled, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err == nil && !bytes.Contains(enabled, []byte("[never]")) && os.Getpagesize() == smallPage {
		s.collapse = collapseHugePage
	}
	return s
}

// collapseHugePage makes the pages at an address a huge page (madvise(2), Linux
// 6.1).
func collapseHugePage(at uintptr) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, at, hugePage, unix.MADV_COLLAPSE)
	return errno
}

// collapseMemory puts a WRITE's memory into huge pages, if it is large.
func (s *writeBuffers) collapseMemory(p []byte) {
	if len(p) < minWriteBuffer {
		return
	}
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	for at := begin &^ (hugePage - 1); at < begin+uintptr(len(p)); at += hugePage {
		if do := s.claimCollapse(at); do != nil {
			s.recordCollapse(do(at))
		}
	}
}

// recordCollapse records a collapse's outcome.
func (s *writeBuffers) recordCollapse(errno unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errno == 0:
		s.pause = 0
	case errno == unix.EINVAL:
		s.collapse = nil // an older kernel, or one that does not permit it
	case s.pauseLeft == 0: // otherwise a concurrent one has failed, too
		s.pause = min(max(2*s.pause, 1), maxWritePause)
		s.pauseLeft = s.pause
	}
}

// claimCollapse returns collapse at the first use of an address since startMinute,
// otherwise nil. During a pause after a failure it returns nil.
func (s *writeBuffers) claimCollapse(at uintptr) func(at uintptr) unix.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.tried[at]; found || s.collapse == nil || s.pauseLeft > 0 || len(s.tried) == maxWriteBuffers {
		return nil
	}
	s.tried[at] = struct{}{}
	return s.collapse
}

// startMinute is called once a minute. It lets all addresses be tried again: memory
// that was returned to the kernel in the meantime is in small pages.
func (s *writeBuffers) startMinute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tried)
	s.pauseLeft = max(s.pauseLeft-1, 0)
}
