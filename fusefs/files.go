package fusefs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A file is an open file. What is read and written by it is in the name of who
// opened it.
type file struct {
	n      *node
	who    *caller
	writes bool

	// emptied is what the kernel has of n when it has dropped the pages that it
	// had, as it was told to do when it opens the file; nil: it has, or was not
	// told.
	emptied atomic.Pointer[pages]

	prefetch atomic.Pointer[prefetch] // for the first READ; nil: it asks the server

	told told // of losses, under their lock
}

// files are the open files and directories, by the number that the kernel has.
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
