package realm

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A source is the file system of an export while it is exported, and counts its
// users. Exports of several sets may share a source.
type source struct {
	FS       vfs.FS
	Mapper   vfs.Mapper     // FS, or nil
	Keys     vfs.Identifier // likewise
	Leaser   vfs.Leaser     // likewise
	work     work           // permits of calls for FS
	overload overload       // counts the same calls

	// running calls; retired is added once the export is gone.
	calls atomic.Int64

	mu       sync.Mutex
	released func() // see Export; nil after the call
}

const retired = math.MinInt64

func newSource(fs vfs.FS) *source {
	s := &source{FS: fs}
	s.Mapper, _ = fs.(vfs.Mapper)
	s.Keys, _ = fs.(vfs.Identifier)
	s.Leaser, _ = fs.(vfs.Leaser)
	return s
}

// enter begins a call. If it returns false, the export is gone; otherwise the
// call must end with leave.
func (s *source) enter() bool {
	if s.calls.Add(1) > 0 {
		return true
	}
	s.leave()
	return false
}

func (s *source) leave() {
	if s.calls.Add(-1) == retired {
		s.release()
	}
}

// retire prevents new calls.
func (s *source) retire() {
	if s.calls.Add(retired) == retired {
		s.release()
	}
}

// release is called when no call uses the file system, nor will any. Late calls
// may make it run more than once.
func (s *source) release() {
	s.mu.Lock()
	f := s.released
	s.released = nil
	s.mu.Unlock()
	if f != nil {
		f()
	}
}

func (s *source) setReleased(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = f
}
