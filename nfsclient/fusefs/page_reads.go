package fusefs

import (
	"slices"
	"sync"
	"time"
)

// The kernel copies a program's data into a page and unlocks it before it sends the WRITE. If it
// then drops the page, because the file's attributes have changed for example, a READ for another
// program overtakes the WRITE in this process, and the kernel has a page with old data that counts
// as current. pageReads finds such pages. The kernel numbers requests in the order in which it
// sends them.

// A pageRequest is a READ of a file that programs may write, or a WRITE.
type pageRequest struct {
	from, to uint64 // range in the file
	number   uint64
	done     bool // only READs that are done are kept
	// outdated is true for a READ if data of its range were written since it was read, and for a
	// WRITE if a READ of its range may have overtaken it.
	outdated bool
}

func (r *pageRequest) overlaps(o *pageRequest) bool { return r.from < o.to && o.from < r.to }

// maxDoneReads is how many completed READs a file keeps, in case that a WRITE which the kernel sent
// earlier has not begun yet.
const maxDoneReads = 16

// pageReads are the READs and WRITEs of a file in progress, and the last completed READs.
type pageReads struct {
	mu     sync.Mutex
	reads  []*pageRequest
	writes []*pageRequest
	done   int // of reads
}

// beginRead adds a READ.
func (s *pageReads) beginRead(from, to, number uint64) *pageRequest {
	r := &pageRequest{from: from, to: to, number: number}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = append(s.reads, r)
	for _, w := range s.writes {
		w.outdated = w.outdated || w.overlaps(r)
	}
	return r
}

// isOutdated reports whether r must be read again.
func (s *pageReads) isOutdated(r *pageRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	outdated := r.outdated
	r.outdated = false
	return outdated
}

// endRead records that r is completed.
func (s *pageReads) endRead(r *pageRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.done = true
	if s.done++; s.done > maxDoneReads {
		i := slices.IndexFunc(s.reads, func(r *pageRequest) bool { return r.done })
		s.reads = slices.Delete(s.reads, i, i+1)
		s.done--
	}
}

// beginWrite adds a WRITE.
func (s *pageReads) beginWrite(from, to, number uint64) *pageRequest {
	w := &pageRequest{from: from, to: to, number: number}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, w)
	for _, r := range s.reads {
		w.outdated = w.outdated || w.overlaps(r) && (!r.done || r.number > number)
	}
	return w
}

// endWrite records that w's data were accepted or rejected, and reports whether a READ of them may
// have overtaken it.
func (s *pageReads) endWrite(w *pageRequest) (overtaken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = slices.DeleteFunc(s.writes, func(o *pageRequest) bool { return o == w })
	for _, r := range s.reads {
		r.outdated = r.outdated || !r.done && r.overlaps(w)
	}
	return w.outdated
}

// dropOvertakenPages makes the kernel drop pages that may have got older data than a WRITE's, before
// the reply to the WRITE. The kernel may hold locks of the WRITE's pages until that reply, and drops
// them afterwards then: those were not read.
func (m *Mount) dropOvertakenPages(n *node, off, length uint64) {
	done := make(chan struct{})
	m.notifications.Go(func() {
		defer close(done)
		_ = m.server.InodeNotify(n.id, int64(off), int64(length)) // the kernel may have forgotten n
	})
	select {
	case <-done:
	case <-time.After(overtakenWait):
	}
}
