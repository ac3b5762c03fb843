package realm

import (
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A source is the file system of an export while it is exported, and counts its
// users. Exports of several sets may share a source.
type source struct {
	FS     vfs.FS
	Mapper vfs.Mapper         // FS, or nil
	Keys   vfs.Identifier     // likewise
	Names  vfs.NameIdentifier // likewise
	Leaser vfs.Leaser         // likewise
	Opener vfs.Opener         // likewise
	Locker vfs.Locker         // likewise
	Spacer vfs.Spacer         // likewise
	Copier vfs.Copier         // likewise
	Xattrs vfs.Xattrs         // FS, or nil if no object has any
	ACLs   vfs.ACLs           // likewise

	// CloneAlign is that of Copier, or 0.
	CloneAlign uint32

	work     work     // permits of calls for FS
	overload overload // counts the same calls

	// running calls; retired is added once the export is gone.
	calls atomic.Int64

	mu       sync.Mutex
	released func() // see Export; nil after the call
	files    map[*File]struct{}
}

const retired = math.MinInt64

func newSource(fs vfs.FS) *source {
	s := &source{FS: fs}
	s.Mapper, _ = fs.(vfs.Mapper)
	s.Keys, _ = fs.(vfs.Identifier)
	s.Names, _ = fs.(vfs.NameIdentifier)
	s.Leaser, _ = fs.(vfs.Leaser)
	s.Opener, _ = fs.(vfs.Opener)
	s.Locker, _ = fs.(vfs.Locker)
	s.Spacer, _ = fs.(vfs.Spacer)
	if s.Copier, _ = fs.(vfs.Copier); s.Copier != nil {
		s.CloneAlign = s.Copier.CloneAlign()
	}
	if x, ok := fs.(vfs.Xattrs); ok && x.HasXattrs() {
		s.Xattrs = x
	}
	if a, ok := fs.(vfs.ACLs); ok && a.HasACLs() {
		s.ACLs = a
	}
	s.files = make(map[*File]struct{})
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

// release is called when no call uses the file system, nor will any: it closes
// the files that clients have open. That may wait for storage, and the caller
// does not: it may be SetExports. Late calls may make release run more than
// once.
func (s *source) release() {
	s.mu.Lock()
	files := slices.Collect(maps.Keys(s.files))
	f := s.released
	s.released = nil
	s.mu.Unlock()
	if f == nil {
		f = func() {}
	}
	if len(files) == 0 {
		f()
		return
	}
	go func() {
		for _, open := range files {
			open.end()
		}
		f()
	}()
}

// remember records an open file, and forget that it is closed.
func (s *source) remember(f *File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[f] = struct{}{}
}

func (s *source) forget(f *File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, f)
}

func (s *source) setReleased(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = f
}
