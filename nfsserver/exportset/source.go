package exportset

import (
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A source is an export's file system while it is exported, and counts its users. Exports in
// several snapshots may share a source.
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

	// CloneAlign is Copier's alignment, or 0.
	CloneAlign uint32

	// OrdersChanges reports that FS is a vfs.ChangeOrderer with ordered change attributes.
	OrdersChanges bool

	isUnavailable bool // FS is Unavailable, and no automount
	isAutomount   bool // FS is Unavailable until an automount has mounted the real one

	work     permitCounts  // permits for calls to FS
	overload overloadGuard // counts the same calls
	faults   faultCounts

	// calls counts running calls; retired is added once the export has been removed.
	calls atomic.Int64

	mu         sync.Mutex
	released   func() // Export.Released; nil after the call
	isReleased bool   // release has run
	files      map[*File]struct{}
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
	if o, ok := fs.(vfs.ChangeOrderer); ok {
		s.OrdersChanges = o.OrdersChanges()
	}
	if u, ok := fs.(Unavailable); ok {
		s.isAutomount = u.Automount != nil
		s.isUnavailable = !s.isAutomount
	}
	s.files = make(map[*File]struct{})
	return s
}

// enterCall begins a call. If it returns false, the export has been removed; otherwise the
// caller must call leaveCall.
func (s *source) enterCall() bool {
	if s.calls.Add(1) > 0 {
		return true
	}
	s.leaveCall()
	return false
}

func (s *source) leaveCall() {
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

// release is called when no call uses the file system, nor will any: it closes the files that
// clients have open, and then calls the function from setReleased. That may wait for storage,
// but the caller does not wait, because it may be SetExports. A later call makes release run
// once more, which must then do nothing: it would take files from the first run, which would no
// longer wait until they are closed.
func (s *source) release() {
	s.mu.Lock()
	files := slices.Collect(maps.Keys(s.files))
	f, wasReleased := s.released, s.isReleased
	s.released, s.isReleased = nil, true
	s.mu.Unlock()
	if wasReleased {
		return
	}
	if f == nil {
		f = func() {}
	}
	if len(files) == 0 {
		f()
		return
	}
	go func() {
		for _, open := range files {
			open.endFile()
		}
		f()
	}()
}

// rememberFile records an open file, and forgetFile that it is closed.
func (s *source) rememberFile(f *File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[f] = struct{}{}
}

func (s *source) forgetFile(f *File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, f)
}

func (s *source) setReleased(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = f
}
