package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// making begins a request that creates a name in a directory.
func (m *Mount) making(cancel <-chan struct{}, h *fuse.InHeader, name string) (o *op, dir *node, where nfs3.DirOpArgs) {
	o, dir = m.begin(cancel, h), m.table.node(h.NodeId)
	if dir != nil {
		o.changes(dir)
		o.made = givenName{dir, name}
		where = nfs3.DirOpArgs{Dir: dir.fh, Name: []byte(name)}
	}
	return o, dir, where
}

// made ends a request that making began, for an object of the file type typ.
func (m *Mount) made(o *op, dir *node, name string, typ uint32, began uint64, res *nfs3.MakeRes, err error, out *fuse.EntryOut) fuse.Status {
	dir.mayHave(name)
	unsure(err, dir)
	if err != nil {
		m.suspect(dir)
		return m.fail(err)
	}
	if status := m.found(o, dir, name, began, res, out); status != fuse.OK {
		return status
	}
	if out.Attr.Mode&unix.S_IFMT != typ {
		// Another client has put something else under the name. The kernel
		// would refuse it without counting the reference. It must look the name
		// up again.
		o.untell()
		return errStale
	}
	return fuse.OK
}

// modeOf returns the attributes of a new object. The kernel has applied the
// umask.
func modeOf(mode uint32) nfs3.SetAttr {
	return nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: mode & 0o7777}}
}

// Mkdir implements fuse.RawFileSystem.
func (m *Mount) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	o, dir, where := m.making(cancel, &in.InHeader, name)
	defer m.end(o)
	if dir == nil {
		return errStale
	}
	began := m.tick()
	res, err := o.c().Mkdir(o, &nfs3.MkdirArgs{Where: where, Attr: modeOf(in.Mode)})
	return m.made(o, dir, name, unix.S_IFDIR, began, &res, err, out)
}

// Symlink implements fuse.RawFileSystem.
func (m *Mount) Symlink(cancel <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	o, dir, where := m.making(cancel, h, name)
	defer m.end(o)
	if dir == nil {
		return errStale
	}
	began := m.tick()
	res, err := o.c().Symlink(o, &nfs3.SymlinkArgs{Where: where, Attr: modeOf(0o777), Path: []byte(target)})
	return m.made(o, dir, name, unix.S_IFLNK, began, &res, err, out)
}

// Readlink implements fuse.RawFileSystem.
func (m *Mount) Readlink(cancel <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	n := m.table.node(h.NodeId)
	if n == nil {
		return nil, errStale
	}
	o := m.begin(cancel, h)
	defer m.end(o)
	began := m.tick()
	res, err := o.c().ReadLink(o, n.fh)
	if err != nil {
		return nil, m.fail(err)
	}
	m.learnPost(n, began, &res.Attr)
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
	o, dir, where := m.making(cancel, &in.InHeader, name)
	defer m.end(o)
	if dir == nil {
		return errStale
	}
	typ := in.Mode & unix.S_IFMT
	if typ == unix.S_IFREG || typ == 0 {
		return m.create(o, dir, &nfs3.CreateArgs{Where: where, Mode: nfs3.Guarded, Attr: modeOf(in.Mode)}, out)
	}
	a := nfs3.MknodArgs{Where: where, Type: mknodTypes[typ], Attr: modeOf(in.Mode), Spec: specData(in.Rdev)}
	if a.Type == 0 {
		return fuse.EINVAL
	}
	began := m.tick()
	res, err := o.c().Mknod(o, &a)
	return m.made(o, dir, name, typ, began, &res, err, out)
}

// Create implements fuse.RawFileSystem.
func (m *Mount) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	o, dir, where := m.making(cancel, &in.InHeader, name)
	defer m.end(o)
	if dir == nil {
		return errStale
	}
	a := nfs3.CreateArgs{Where: where, Attr: modeOf(in.Mode)}
	a.Attr.Size.Set = in.Flags&unix.O_TRUNC != 0
	create := m.create
	if in.Flags&unix.O_EXCL != 0 {
		create = m.createNew
	}
	if status := create(o, dir, &a, &out.EntryOut); status != fuse.OK {
		return status
	}
	n := m.table.node(out.NodeId) // the kernel was given n, and holds a reference
	if a.Attr.Size.Set {
		n.resized(0)
	}
	m.table.open(n)
	out.OpenFlags = m.openedAs(in.Flags)
	out.Fh = m.newFile(o, n, in.Flags, nil, nil)
	return fuse.OK
}

// create creates a file or takes the existing file, as a.Mode says.
func (m *Mount) create(o *op, dir *node, a *nfs3.CreateArgs, out *fuse.EntryOut) fuse.Status {
	began := m.tick()
	res, err := o.c().Create(o, a)
	return m.made(o, dir, string(a.Where.Name), unix.S_IFREG, began, &res, err, out)
}

// createNew creates a file that must not exist yet.
func (m *Mount) createNew(o *op, dir *node, a *nfs3.CreateArgs, out *fuse.EntryOut) fuse.Status {
	began := m.tick()
	res, err := o.c().CreateNew(o, a.Where, modeOf(a.Attr.Mode.Value))
	return m.made(o, dir, string(a.Where.Name), unix.S_IFREG, began, &res, err, out)
}
