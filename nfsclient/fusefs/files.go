package fusefs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// An openFile is an open file. Reads and writes through it use the opener's
// identity.
type openFile struct {
	n      *node
	who    *caller
	writes bool

	// emptied describes the kernel's pages of n once the kernel has dropped all
	// older pages, as the reply to open requires. It is nil if the kernel has
	// dropped them, or need not.
	emptied atomic.Pointer[cachedPages]

	prefetch atomic.Pointer[prefetch] // data for the first READ; nil: send the READ

	lockers lockOwners

	reported reportedSeq // losses reported so far; guarded by writeErrors.mu
}

// files holds the open files and directories, by the kernel's handle number.
type files struct {
	mu   sync.RWMutex
	all  map[uint64]*openFile
	dirs map[uint64]*openDir
	last uint64
}

func (s *files) findFile(fh uint64) *openFile {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[fh]
}

// listNodeFiles returns a node's open files.
func (s *files) listNodeFiles(n *node) (list []*openFile) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, f := range s.all {
		if f.n == n {
			list = append(list, f)
		}
	}
	return list
}

func (s *files) findDir(fh uint64) *openDir {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.dirs[fh]
}

func (s *files) addFile(f *openFile) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.all[s.last] = f
	return s.last
}

func (s *files) addDir(d *openDir) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.dirs[s.last] = d
	return s.last
}

func (s *files) removeFile(fh uint64) *openFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.all[fh]
	delete(s.all, fh)
	return f
}

func (s *files) removeDir(fh uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dirs, fh)
}

// newOpenFile registers an open file of n.
func (m *Mount) newOpenFile(o *op, n *node, flags uint32, emptied *cachedPages, data *prefetch) uint64 {
	f := &openFile{n: n, who: o.requestCaller(), writes: flags&unix.O_ACCMODE != unix.O_RDONLY}
	f.emptied.Store(emptied)
	f.prefetch.Store(data)
	if f.writes {
		p := n.ensurePending()
		p.mu.Lock()
		p.writers++
		p.mu.Unlock()
	}
	if p := n.pending.Load(); p != nil {
		f.reported = p.losses.reportedAtOpen()
	}
	o.openedHandle = m.files.addFile(f)
	return o.openedHandle
}
