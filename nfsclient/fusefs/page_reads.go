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

// A pageRead is a READ of a file that programs may write.
type pageRead struct {
	from, to uint64 // range in the file
	number   uint64 // of the request
	done     bool
	outdated bool // data of the range were written since it was read
}

// maxDoneReads is how many completed READs a file keeps, in case that a WRITE which the kernel sent
// earlier is still to come.
const maxDoneReads = 16

// pageReads are the READs of a file in progress, and the last completed ones.
type pageReads struct {
	mu    sync.Mutex
	reads []*pageRead
}

// begin adds a READ.
func (s *pageReads) begin(from, to, number uint64) *pageRead {
	r := &pageRead{from: from, to: to, number: number}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = append(s.reads, r)
	return r
}

// isOutdated reports whether r must be read again.
func (s *pageReads) isOutdated(r *pageRead) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	outdated := r.outdated
	r.outdated = false
	return outdated
}

// end records that r is completed.
func (s *pageReads) end(r *pageRead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.done = true
	if len(s.reads) > maxDoneReads {
		if i := slices.IndexFunc(s.reads, func(r *pageRead) bool { return r.done }); i >= 0 {
			s.reads = slices.Delete(s.reads, i, i+1)
		}
	}
}

// findOvertaking records that a WRITE's data were accepted, and reports whether a READ of them may
// have overtaken it.
func (s *pageReads) findOvertaking(from, to, number uint64) (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.reads {
		if r.from < to && from < r.to && (!r.done || r.number > number) {
			r.outdated, found = true, true
		}
	}
	return found
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
