package fusefs

import (
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// fmodeExec is the flag with which the kernel opens what it will execute.
const fmodeExec = 0x20

// A file is an open file. What is read and written by it is in the name of who
// opened it.
type file struct {
	n      *node
	who    *caller
	writes bool
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

// A retry is an open that was answered with ESTALE, so that the kernel tries
// again.
type retry struct {
	pid uint32
	at  time.Time
}

// Open implements fuse.RawFileSystem. It asks the server whether the caller may
// (ACCESS), and learns by the way whether the file has changed since: then what
// the kernel has of it does not count any more (close-to-open consistency).
func (m *Mount) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := m.table.node(in.NodeId)
	if n == nil {
		return errStale
	}
	o := m.begin(cancel, &in.InHeader)
	defer m.end(o)
	m.table.open(n) // first, so that who removes the name sees it
	status := m.open(o, n, in.Flags, out)
	if status != fuse.OK {
		m.closed(o, n)
	}
	return status
}

func (m *Mount) open(o *op, n *node, flags uint32, out *fuse.OpenOut) fuse.Status {
	if err := m.flush(o, n); err != nil {
		return m.fail(err)
	}
	rights := openRights(flags)
	began := m.tick()
	res, err := o.c().Access(o, n.fh, rights)
	if err != nil {
		return m.failOn(n, err)
	}
	if err := m.learnOrFetch(o, n, began, &res.Attr); err != nil {
		return m.failOn(n, err)
	}
	switch {
	case n.removed():
		return m.failOn(n, errRemoved) // perhaps another has its name
	case res.Access&rights != rights:
		return errAccess
	}
	if flags&unix.O_TRUNC != 0 {
		err := m.setAttr(o, n, o.who(), &nfs3.SetAttr{Size: nfs3.OptUint64{Set: true}})
		if err != nil {
			return m.fail(err)
		}
	}
	switch same, sameSize := n.asTold(); {
	case flags&unix.O_APPEND != 0 && flags&unix.O_TRUNC == 0 && !sameSize && n.mayRetry(o.from.Pid):
		// The kernel appends where it believes the end to be. ESTALE makes
		// it look the name up again, and learn the size that way.
		return errStale
	case same:
		out.OpenFlags = fuse.FOPEN_KEEP_CACHE
		n.retried(o.from.Pid)
	default:
		m.expire(n)
	}
	out.OpenFlags |= direct(flags)
	out.Fh = m.newFile(o, n, flags)
	return fuse.OK
}

// direct returns what the kernel is told of a file opened with O_DIRECT: to ask
// for data wherever it believes the end to be, and to write in parallel.
func direct(flags uint32) uint32 {
	if flags&unix.O_DIRECT == 0 {
		return 0
	}
	return fuse.FOPEN_DIRECT_IO | fuse.FOPEN_PARALLEL_DIRECT_WRITES
}

// openRights returns the rights that a file is opened for.
func openRights(flags uint32) (rights uint32) {
	if flags&fmodeExec != 0 {
		return nfs3.AccessExecute
	}
	const write = nfs3.AccessModify | nfs3.AccessExtend
	switch flags & unix.O_ACCMODE {
	case unix.O_RDONLY:
		rights = nfs3.AccessRead
	case unix.O_WRONLY:
		rights = write
	default:
		rights = nfs3.AccessRead | write
	}
	if flags&unix.O_TRUNC != 0 {
		rights |= write
	}
	return rights
}

// newFile makes an open file of n.
func (m *Mount) newFile(o *op, n *node, flags uint32) uint64 {
	f := &file{n: n, who: o.who(), writes: flags&unix.O_ACCMODE != unix.O_RDONLY}
	if f.writes {
		n.pending.mu.Lock()
		n.pending.writers++
		n.pending.mu.Unlock()
	}
	return m.files.addFile(f)
}

// asTold tells whether n's data, and its size, are as the kernel has them.
func (n *node) asTold() (same, size bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	size = n.told.size == max(n.attr.Size, n.wrote)
	return size && n.told.mtime == n.attr.Mtime, size
}

// mayRetry tells whether the kernel has not just tried again in vain.
func (n *node) mayRetry(pid uint32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.gaveUp.pid == pid && now.Sub(n.gaveUp.at) < staleRetry {
		n.gaveUp = retry{}
		return false
	}
	n.gaveUp = retry{pid: pid, at: now}
	return true
}

// retried notes that the kernel's second try found nothing new.
func (n *node) retried(pid uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gaveUp.pid == pid {
		n.gaveUp = retry{}
	}
}

// Release implements fuse.RawFileSystem.
func (m *Mount) Release(cancel <-chan struct{}, in *fuse.ReleaseIn) {
	f := m.files.removeFile(in.Fh)
	if f == nil {
		return
	}
	o := m.begin(cancel, &in.InHeader)
	defer m.end(o)
	if f.writes {
		m.writerClosed(o, f.n)
	}
	m.closed(o, f.n)
}

// writerClosed sends what a mapping left when the last file that may write is
// closed.
func (m *Mount) writerClosed(o *op, n *node) {
	p := &n.pending
	p.mu.Lock()
	p.writers--
	w := p.w
	if p.writers > 0 {
		w = nil
	}
	p.mu.Unlock()
	if w == nil {
		return
	}
	if err := m.sync(o, n); err != nil {
		m.complain(err)
	}
	p.mu.Lock()
	again := p.writers > 0
	p.mu.Unlock()
	if !again {
		p.retire(w)
	}
}

// closed ends an open file of n.
func (m *Mount) closed(o *op, n *node) {
	if m.table.close(n) {
		m.removeHidden(o, n)
	}
}

// Flush implements fuse.RawFileSystem: a descriptor is closed.
func (m *Mount) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	f := m.files.file(in.Fh)
	if f == nil || !f.writes {
		return fuse.OK
	}
	return m.syncFile(cancel, &in.InHeader, f)
}

// Fsync implements fuse.RawFileSystem: by any descriptor, for all that was
// written by any.
func (m *Mount) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	f := m.files.file(in.Fh)
	if f == nil {
		return fuse.EBADF
	}
	return m.syncFile(cancel, &in.InHeader, f)
}

func (m *Mount) syncFile(cancel <-chan struct{}, h *fuse.InHeader, f *file) fuse.Status {
	o := m.begin(cancel, h)
	defer m.end(o)
	return m.fail(m.sync(o, f.n))
}
