package clusterfs

import (
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A handle is an open file or directory of a session.
type handle struct {
	fd     int
	mu     sync.Mutex      // guards the directory's position
	owners map[uint64]bool // of byte-range locks; guarded by the lock table's mutex
}

// A handleTable has a session's handles.
type handleTable struct {
	mu   sync.Mutex
	last uint64
	byID map[uint64]*handle
}

func (t *handleTable) add(fd int) (id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID = map[uint64]*handle{}
	}
	t.last++
	t.byID[t.last] = &handle{fd: fd, owners: map[uint64]bool{}}
	return t.last
}

func (t *handleTable) get(id uint64) (*handle, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.byID[id]; h != nil {
		return h, nil
	}
	return nil, unix.EBADF
}

func (t *handleTable) remove(id uint64) *handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.byID[id]
	delete(t.byID, id)
	return h
}

func (t *handleTable) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.byID {
		unix.Close(h.fd)
	}
	t.byID = nil
}

// open returns the node and the handle of an operation.
func (f *rawFS) open(id, fh uint64) (*node, *handle, error) {
	n, err := f.e.nodes.get(id)
	if err != nil {
		return nil, nil, err
	}
	h, err := f.s.handles.get(fh)
	return n, h, err
}

func (f *rawFS) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, err := f.e.nodes.get(in.NodeId)
	if err == nil {
		// The kernel executes the other flags.
		flags := int(in.Flags) & (unix.O_ACCMODE | unix.O_TRUNC | unix.O_DIRECTORY)
		var fd int
		if fd, err = unix.Open(n.proc(), flags|unix.O_CLOEXEC, 0); err == nil {
			out.Fh = f.s.handles.add(fd)
		}
	}
	return f.record(Record{Op: "open"}, n, "", err)
}

func (f *rawFS) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	n, h, err := f.open(in.NodeId, in.Fh)
	size := 0
	if err == nil {
		size, err = unix.Pread(h.fd, buf[:min(len(buf), int(in.Size))], int64(in.Offset))
	}
	size = max(size, 0)
	return fuse.ReadResultData(buf[:size]), f.record(Record{Op: "read", Offset: int64(in.Offset), Length: size}, n, "", err)
}

func (f *rawFS) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	n, h, err := f.open(in.NodeId, in.Fh)
	size := 0
	if err == nil {
		size, err = unix.Pwrite(h.fd, data, int64(in.Offset))
	}
	size = max(size, 0)
	r := Record{Op: "write", Offset: int64(in.Offset), Length: size, Hash: shortHash(data[:size])}
	return uint32(size), f.record(r, n, "", err)
}

func (f *rawFS) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	n, h, err := f.open(in.NodeId, in.Fh)
	if err == nil {
		err = unix.Fsync(h.fd)
	}
	return f.record(Record{Op: "fsync"}, n, "", err)
}

func (f *rawFS) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return f.Fsync(cancel, in)
}

func (f *rawFS) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	n, h, err := f.open(in.NodeId, in.Fh)
	if err == nil {
		err = unix.Fallocate(h.fd, in.Mode, int64(in.Offset), int64(in.Length))
	}
	return f.record(Record{Op: "fallocate", Offset: int64(in.Offset), Length: int(in.Length)}, n, "", err)
}

func (f *rawFS) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	_, h, err := f.open(in.NodeId, in.Fh)
	if err != nil {
		return fuse.ToStatus(err)
	}
	offset, err := unix.Seek(h.fd, int64(in.Offset), int(in.Whence))
	out.Offset = uint64(offset)
	return fuse.ToStatus(err)
}

func (f *rawFS) Flush(_ <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	n, _, err := f.open(in.NodeId, in.Fh)
	if err == nil {
		f.e.locks.release(n, lockOwner{f.s, in.LockOwner, false})
	}
	return fuse.ToStatus(err)
}

func (f *rawFS) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	h := f.s.handles.remove(in.Fh)
	if h == nil {
		return
	}
	if n, err := f.e.nodes.get(in.NodeId); err == nil {
		f.e.locks.releaseHandle(n, f.s, h)
		if in.ReleaseFlags&fuse.FUSE_RELEASE_FLOCK_UNLOCK != 0 {
			f.e.locks.release(n, lockOwner{f.s, in.LockOwner, true})
		}
	}
	unix.Close(h.fd)
}

func (f *rawFS) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return f.Open(cancel, in, out)
}

func (f *rawFS) ReleaseDir(in *fuse.ReleaseIn) { f.Release(nil, in) }

// ReadDir uses the backing file system's cookies, which are the same on all hosts.
func (f *rawFS) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	_, h, err := f.open(in.NodeId, in.Fh)
	if err != nil {
		return fuse.ToStatus(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := unix.Seek(h.fd, int64(in.Offset), unix.SEEK_SET); err != nil {
		return fuse.ToStatus(err)
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(h.fd, buf)
		if err != nil || n == 0 {
			return fuse.ToStatus(err)
		}
		for rest := buf[:n]; len(rest) > 0; {
			var e fuse.DirEntry
			rest = rest[e.Parse(rest):]
			if !out.AddDirEntry(e) {
				return fuse.OK
			}
		}
	}
}

func (f *rawFS) StatFs(_ <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	n, err := f.e.nodes.get(h.NodeId)
	if err != nil {
		return fuse.ToStatus(err)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(n.fd, &st); err != nil {
		return fuse.ToStatus(err)
	}
	*out = fuse.StatfsOut{
		Blocks: st.Blocks, Bfree: st.Bfree, Bavail: st.Bavail, Files: st.Files, Ffree: st.Ffree,
		Bsize: uint32(st.Bsize), NameLen: uint32(st.Namelen), Frsize: uint32(st.Frsize),
	}
	return fuse.OK
}

func (f *rawFS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, err := f.e.nodes.get(in.NodeId)
	if err == nil {
		err = f.fillAttrOut(n, out)
	}
	return fuse.ToStatus(err)
}

func (f *rawFS) fillAttrOut(n *node, out *fuse.AttrOut) error {
	out.SetTimeout(max(f.e.options.Cache, 0))
	return fillAttr(n.fd, &out.Attr)
}

func (f *rawFS) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, err := f.e.nodes.get(in.NodeId)
	if err == nil {
		err = f.setAttr(n, in)
	}
	if err == nil {
		err = f.fillAttrOut(n, out)
	}
	return f.record(Record{Op: "setattr"}, n, "", err)
}

func (f *rawFS) setAttr(n *node, in *fuse.SetAttrIn) error {
	if size, ok := in.GetSize(); ok {
		if err := f.truncate(n, in, int64(size)); err != nil {
			return err
		}
	}
	uid, hasUID := in.GetUID()
	gid, hasGID := in.GetGID()
	if hasUID || hasGID { // what is not set is ^0, which means no change
		if err := unix.Fchownat(n.fd, "", int(int32(uid)), int(int32(gid)), unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if mode, ok := in.GetMode(); ok {
		if err := unix.Chmod(n.proc(), mode); err != nil {
			return err
		}
	}
	atime, hasAtime := in.GetATime()
	mtime, hasMtime := in.GetMTime()
	if !hasAtime && !hasMtime {
		return nil
	}
	times := []unix.Timespec{timespec(atime, hasAtime), timespec(mtime, hasMtime)}
	return unix.UtimesNanoAt(n.fd, "", times, unix.AT_EMPTY_PATH)
}

// truncate uses the open file if there is one: its mode may forbid another open.
func (f *rawFS) truncate(n *node, in *fuse.SetAttrIn, size int64) error {
	if fh, ok := in.GetFh(); ok {
		if h, err := f.s.handles.get(fh); err == nil {
			return unix.Ftruncate(h.fd, size)
		}
	}
	return unix.Truncate(n.proc(), size)
}

func timespec(t time.Time, set bool) unix.Timespec {
	if !set {
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	return unix.NsecToTimespec(t.UnixNano())
}
