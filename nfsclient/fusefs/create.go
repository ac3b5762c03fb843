package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// beginCreate begins a request that creates a name in a directory.
func (m *Mount) beginCreate(cancel <-chan struct{}, h *fuse.InHeader, name string) (o *op, dir *node, where nfs3.DirOpArgs) {
	o, dir = m.beginRequest(cancel, h), m.table.findNode(h.NodeId)
	if dir != nil {
		o.recordNameChanges(dir)
		o.createdName = givenName{dir, name}
		where = nfs3.DirOpArgs{Dir: dir.fh, Name: []byte(name)}
	}
	return o, dir, where
}

// endCreate ends a request that beginCreate began, for an object of file type typ.
func (m *Mount) endCreate(o *op, dir *node, name string, typ uint32, began uint64, res *nfs3.MakeRes, err error, out *fuse.EntryOut) fuse.Status {
	dir.forgetAbsent(name)
	markIfUncertain(err, dir)
	if err != nil {
		m.invalidateAttr(dir)
		return m.errorStatus(err)
	}
	if status := m.replyCreated(o, dir, name, began, res, out); status != fuse.OK {
		return status
	}
	if out.Attr.Mode&unix.S_IFMT != typ {
		// Another client has put another object at the name. The kernel would
		// reject it without counting the reference. It must look the name up again.
		o.undoLastReference()
		return errStale
	}
	return fuse.OK
}

// modeAttr returns the attributes of a new object with a mode.
func modeAttr(mode uint32) nfs3.SetAttr {
	return nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: mode & 0o7777}}
}

// Mkdir implements fuse.RawFileSystem.
func (m *Mount) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	o, dir, where := m.beginCreate(cancel, &in.InHeader, name)
	defer m.endRequest(o)
	if dir == nil {
		return errStale
	}
	attr, err := m.newObjectAttr(o, dir, in.Mode, in.Umask)
	if err != nil {
		return m.nodeErrorStatus(dir, err)
	}
	began := m.nextTick()
	res, err := o.callerClient().Mkdir(o, &nfs3.MkdirArgs{Where: where, Attr: attr})
	status := m.endCreate(o, dir, name, unix.S_IFDIR, began, &res, err, out)
	if status == fuse.OK {
		dir.inheritDefaultList(m.table.findNode(out.NodeId), &res.Dir, &res.Attr)
	}
	return status
}

// Symlink implements fuse.RawFileSystem.
func (m *Mount) Symlink(cancel <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	o, dir, where := m.beginCreate(cancel, h, name)
	defer m.endRequest(o)
	if dir == nil {
		return errStale
	}
	began := m.nextTick()
	res, err := o.callerClient().Symlink(o, &nfs3.SymlinkArgs{Where: where, Attr: modeAttr(0o777), Path: []byte(target)})
	return m.endCreate(o, dir, name, unix.S_IFLNK, began, &res, err, out)
}

// Readlink implements fuse.RawFileSystem.
func (m *Mount) Readlink(cancel <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	n := m.table.findNode(h.NodeId)
	if n == nil {
		return nil, errStale
	}
	o := m.beginRequest(cancel, h)
	defer m.endRequest(o)
	defer n.trustedUntil.clear() // the kernel drops the atime
	began := m.nextTick()
	res, err := o.callerClient().ReadLink(o, n.fh)
	if err != nil {
		return nil, m.errorStatus(err)
	}
	m.learnPostOpAttr(n, began, &res.Attr)
	return res.Path, fuse.OK
}

var mknodTypes = map[uint32]nfs3.Type{
	unix.S_IFBLK:  nfs3.TypeBlk,
	unix.S_IFCHR:  nfs3.TypeChr,
	unix.S_IFIFO:  nfs3.TypeFIFO,
	unix.S_IFSOCK: nfs3.TypeSock,
}

// Mknod implements fuse.RawFileSystem.
func (m *Mount) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	o, dir, where := m.beginCreate(cancel, &in.InHeader, name)
	defer m.endRequest(o)
	if dir == nil {
		return errStale
	}
	attr, err := m.newObjectAttr(o, dir, in.Mode, in.Umask)
	if err != nil {
		return m.nodeErrorStatus(dir, err)
	}
	typ := in.Mode & unix.S_IFMT
	if typ == unix.S_IFREG || typ == 0 {
		return m.createFile(o, dir, &nfs3.CreateArgs{Where: where, Mode: nfs3.Guarded, Attr: attr}, out)
	}
	a := nfs3.MknodArgs{Where: where, Type: mknodTypes[typ], Attr: attr, Spec: decodeDev(in.Rdev)}
	if a.Type == 0 {
		return fuse.EINVAL
	}
	began := m.nextTick()
	res, err := o.callerClient().Mknod(o, &a)
	return m.endCreate(o, dir, name, typ, began, &res, err, out)
}

// Create implements fuse.RawFileSystem.
func (m *Mount) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	o, dir, where := m.beginCreate(cancel, &in.InHeader, name)
	defer m.endRequest(o)
	if dir == nil {
		return errStale
	}
	attr, err := m.newObjectAttr(o, dir, in.Mode, in.Umask)
	if err != nil {
		return m.nodeErrorStatus(dir, err)
	}
	a := nfs3.CreateArgs{Where: where, Attr: attr}
	a.Attr.Size.Set = in.Flags&unix.O_TRUNC != 0
	create := m.createFile
	if in.Flags&unix.O_EXCL != 0 {
		create = m.createExclusive
	}
	if status := create(o, dir, &a, &out.EntryOut); status != fuse.OK {
		return status
	}
	n := m.table.findNode(out.NodeId) // the kernel has received n, and holds a reference
	if a.Attr.Size.Set {
		m.recordSize(n, 0)
	}
	m.table.addOpen(n)
	out.OpenFlags = m.openReplyFlags(in.Flags)
	out.Fh = m.newOpenFile(o, n, in.Flags, nil, nil)
	return fuse.OK
}

// createFile creates a file or opens the existing file, depending on a.Mode.
func (m *Mount) createFile(o *op, dir *node, a *nfs3.CreateArgs, out *fuse.EntryOut) fuse.Status {
	began := m.nextTick()
	res, err := o.callerClient().Create(o, a)
	return m.endCreate(o, dir, string(a.Where.Name), unix.S_IFREG, began, &res, err, out)
}

// createExclusive creates a file that must not exist yet.
func (m *Mount) createExclusive(o *op, dir *node, a *nfs3.CreateArgs, out *fuse.EntryOut) fuse.Status {
	began := m.nextTick()
	res, err := o.callerClient().CreateNew(o, a.Where, modeAttr(a.Attr.Mode.Value))
	return m.endCreate(o, dir, string(a.Where.Name), unix.S_IFREG, began, &res, err, out)
}
