package fusefs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A file is an open file. Reads and writes through it are made as the caller
// that opened it.
type file struct {
	n      *node
	who    *caller
	writes bool

	// emptied describes the kernel's pages of n once all older pages are
	// dropped, as open ordered. It is nil if the kernel has dropped them, or
	// was not told to.
	emptied atomic.Pointer[pages]

	prefetch atomic.Pointer[prefetch] // for the first READ; nil: ask the server

	lockers lockers

	told told // losses reported so far; under the lock of losses
}

// files holds the open files and directories, by the kernel's number.
type files struct {
	mu   sync.RWMutex
	all  map[uint64]*file
	dirs map[uint64]*dir
	last uint64
}

func (s *files) file(fh uint64) *file {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[fh]
}

// of returns the open files of a node.
func (s *files) of(n *node) (list []*file) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, f := range s.all {
		if f.n == n {
			list = append(list, f)
		}
	}
	return list
}

func (s *files) dir(fh uint64) *dir {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.dirs[fh]
}

func (s *files) addFile(f *file) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.all[s.last] = f
	return s.last
}

func (s *files) addDir(d *dir) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.dirs[s.last] = d
	return s.last
}

func (s *files) removeFile(fh uint64) *file {
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

// newFile makes an open file of n.
func (m *Mount) newFile(o *op, n *node, flags uint32, emptied *pages, data *prefetch) uint64 {
	f := &file{n: n, who: o.who(), writes: flags&unix.O_ACCMODE != unix.O_RDONLY}
	f.emptied.Store(emptied)
	f.prefetch.Store(data)
	if f.writes {
		p := n.pend()
		p.mu.Lock()
		p.writers++
		p.mu.Unlock()
	}
	if p := n.pending.Load(); p != nil {
		f.told = p.losses.opened()
	}
	o.opened = m.files.addFile(f)
	return o.opened
}
