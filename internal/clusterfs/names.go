package clusterfs

import (
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// rawFS executes one session's operations.
type rawFS struct {
	fuse.RawFileSystem // ENOSYS for operations that are not supported

	s *session
	e *engine
}

// record records an operation on n, or on a name in n, and returns its status.
func (f *rawFS) record(r Record, n *node, name string, err error) fuse.Status {
	r.Host = f.s.host
	if n != nil {
		r.Path = joinPath(f.e.nodes.path(n), name)
	}
	if err != nil {
		r.Errno = syscall.Errno(fuse.ToStatus(err))
	}
	f.e.records.add(r)
	return fuse.ToStatus(err)
}

func joinPath(dir, name string) string {
	if name == "" {
		return dir
	}
	return strings.TrimSuffix(dir, "/") + "/" + name
}

func (f *rawFS) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	dir, err := f.e.nodes.get(h.NodeId)
	if err != nil {
		return fuse.ToStatus(err)
	}
	return fuse.ToStatus(f.enter(dir, name, out))
}

// enter looks up a name for a reply that gives the kernel a reference to its node.
func (f *rawFS) enter(dir *node, name string, out *fuse.EntryOut) error {
	n, err := f.e.nodes.open(f.s, dir.fd, name)
	if err != nil {
		return err
	}
	if err := fillAttr(n.fd, &out.Attr); err != nil {
		f.e.nodes.forget(f.s, n.id, 1)
		return err
	}
	cache := max(f.e.options.Cache, 0)
	out.NodeId, out.Generation = n.id, 1
	out.EntryValid, out.EntryValidNsec = uint64(cache/time.Second), uint32(cache%time.Second)
	out.AttrValid, out.AttrValidNsec = out.EntryValid, out.EntryValidNsec
	return nil
}

func fillAttr(fd int, out *fuse.Attr) error {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	out.FromStat(&st)
	return nil
}

func (f *rawFS) Forget(id, refs uint64) { f.e.nodes.forget(f.s, id, refs) }

// create calls make, which makes a name in a directory, gives the new object to the
// caller, and fills in the reply.
func (f *rawFS) create(op string, h *fuse.InHeader, name string, mode uint32, out *fuse.EntryOut, make func(dir int) error) fuse.Status {
	dir, err := f.e.nodes.get(h.NodeId)
	if err == nil {
		err = make(dir.fd)
	}
	if err == nil {
		err = setOwner(dir.fd, name, h.Owner, mode)
	}
	if err == nil {
		err = f.enter(dir, name, out)
	}
	return f.record(Record{Op: op}, dir, name, err)
}

// setOwner gives a new object its owner and mode. In a directory with the set-group-ID
// bit, the backing file system has set the group, and the bit of a directory.
func setOwner(dir int, name string, owner fuse.Owner, mode uint32) error {
	var parent, st unix.Stat_t
	if err := unix.Fstat(dir, &parent); err != nil {
		return err
	}
	gid := int(owner.Gid)
	if parent.Mode&unix.S_ISGID != 0 {
		gid = -1
	}
	if err := unix.Fchownat(dir, name, int(owner.Uid), gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		mode |= parent.Mode & unix.S_ISGID
	}
	return unix.Fchmodat(dir, name, mode&0o7777, 0)
}

func (f *rawFS) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	return f.create("mknod", &in.InHeader, name, in.Mode, out, func(dir int) error {
		return unix.Mknodat(dir, name, in.Mode, int(in.Rdev))
	})
}

func (f *rawFS) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return f.create("mkdir", &in.InHeader, name, in.Mode, out, func(dir int) error {
		return unix.Mkdirat(dir, name, in.Mode)
	})
}

func (f *rawFS) Symlink(_ <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	return f.create("symlink", h, name, 0, out, func(dir int) error {
		return unix.Symlinkat(target, dir, name)
	})
}

func (f *rawFS) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	fd := -1
	status := f.create("create", &in.InHeader, name, in.Mode, &out.EntryOut, func(dir int) (err error) {
		fd, err = unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	switch {
	case status.Ok():
		out.Fh = f.s.handles.add(fd)
	case status == fuse.Status(unix.EEXIST) && in.Flags&unix.O_EXCL == 0: // another host was faster
		return f.openCreated(in, name, out)
	case fd >= 0:
		unix.Close(fd)
	}
	return status
}

func (f *rawFS) openCreated(in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	dir, err := f.e.nodes.get(in.NodeId)
	if err == nil {
		err = f.enter(dir, name, &out.EntryOut)
	}
	if err != nil {
		return fuse.ToStatus(err)
	}
	open := fuse.OpenIn{InHeader: in.InHeader, Flags: in.Flags}
	open.NodeId = out.NodeId
	return f.Open(nil, &open, &out.OpenOut)
}

func (f *rawFS) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return f.unlink("unlink", h, name, 0)
}

func (f *rawFS) Rmdir(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return f.unlink("rmdir", h, name, unix.AT_REMOVEDIR)
}

func (f *rawFS) unlink(op string, h *fuse.InHeader, name string, flags int) fuse.Status {
	dir, err := f.e.nodes.get(h.NodeId)
	if err == nil {
		err = unix.Unlinkat(dir.fd, name, flags)
	}
	return f.record(Record{Op: op}, dir, name, err)
}

func (f *rawFS) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	dir, err := f.e.nodes.get(in.NodeId)
	target := dir
	if err == nil {
		target, err = f.e.nodes.get(in.Newdir)
	}
	r := Record{Op: "rename"}
	if err == nil {
		r.Target = joinPath(f.e.nodes.path(target), to)
		err = unix.Renameat2(dir.fd, from, target.fd, to, uint(in.Flags))
	}
	return f.record(r, dir, from, err)
}

func (f *rawFS) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	dir, err := f.e.nodes.get(in.NodeId)
	old := dir
	if err == nil {
		old, err = f.e.nodes.get(in.Oldnodeid)
	}
	r := Record{Op: "link"}
	if err == nil {
		r.Target = joinPath(f.e.nodes.path(dir), name)
		err = unix.Linkat(unix.AT_FDCWD, old.proc(), dir.fd, name, unix.AT_SYMLINK_FOLLOW)
	}
	if err == nil {
		err = f.enter(dir, name, out)
	}
	return f.record(r, old, "", err)
}

func (f *rawFS) Readlink(_ <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	n, err := f.e.nodes.get(h.NodeId)
	if err != nil {
		return nil, fuse.ToStatus(err)
	}
	buf := make([]byte, unix.PathMax)
	size, err := unix.Readlinkat(n.fd, "", buf)
	return buf[:max(size, 0)], fuse.ToStatus(err)
}
