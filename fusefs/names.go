package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// Unlink implements fuse.RawFileSystem.
func (m *Mount) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	dir := m.table.node(h.NodeId)
	if dir == nil {
		return errStale
	}
	o := m.begin(cancel, h)
	defer m.end(o)
	o.changes(dir)
	n := m.table.child(dir, name)
	o.mayChange(n)
	if n != nil && m.table.isOpen(n) {
		return m.hide(o, dir, name, n)
	}
	began := m.tick()
	wcc, err := o.c().Remove(o, dir.fh, name)
	unsure(err, dir)
	return m.removed(dir, name, n, began, &wcc, err)
}

// Rmdir implements fuse.RawFileSystem.
func (m *Mount) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	dir := m.table.node(h.NodeId)
	if dir == nil {
		return errStale
	}
	o := m.begin(cancel, h)
	defer m.end(o)
	o.changes(dir)
	n := m.table.child(dir, name)
	o.mayChange(n)
	began := m.tick()
	var wcc nfs3.WccData
	err := emptied(o, n, func() (err error) {
		wcc, err = o.c().Rmdir(o, dir.fh, name)
		return err
	})
	unsure(err, dir)
	return m.removed(dir, name, n, began, &wcc, err)
}

// removed ends a request that removed a name in dir. n is the named node, or
// nil if unknown.
func (m *Mount) removed(dir *node, name string, n *node, began uint64, wcc *nfs3.WccData, err error) fuse.Status {
	m.learnOwn(dir, began, &wcc.After)
	if n != nil {
		m.suspect(n) // its link count and ctime
	}
	if err == nil {
		m.table.unname(dir, name)
		dir.lacks(name, sight{began: began, made: true})
	} else {
		m.table.doubt(dir, name)
	}
	return m.fail(err)
}

// Rename implements fuse.RawFileSystem. NFS supports none of the flags.
func (m *Mount) Rename(cancel <-chan struct{}, in *fuse.RenameIn, name, newName string) fuse.Status {
	from, to := m.table.node(in.NodeId), m.table.node(in.Newdir)
	switch {
	case in.Flags != 0:
		return fuse.EINVAL
	case from == nil || to == nil:
		return errStale
	}
	o := m.begin(cancel, &in.InHeader)
	defer m.end(o)
	o.changes(from, to)
	o.made = givenName{to, newName}
	m.mayMove(from, to, newName)
	n, over := m.table.child(from, name), m.table.child(to, newName)
	o.mayChange(n, over)
	hidden := false
	if over != nil && over != n && m.table.isOpen(over) {
		if status := m.hide(o, to, newName, over); status != fuse.OK {
			return status
		}
		hidden = true
	}
	began := m.tick()
	err := emptied(o, over, func() error { return m.rename(o, o.c(), from, name, to, newName) })
	switch {
	case err == nil:
		m.table.rename(from, name, to, newName, began)
		m.moved(from, to)
		from.lacks(name, sight{began: began, made: true})
	case hidden:
		m.unhide(o, to, newName, over)
	}
	if err != nil {
		m.table.doubt(from, name)
		m.table.doubt(to, newName)
	}
	for _, n := range []*node{n, over} {
		if n != nil {
			m.suspect(n)
		}
	}
	return m.fail(err)
}

// Link implements fuse.RawFileSystem.
func (m *Mount) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	dir, n := m.table.node(in.NodeId), m.table.node(in.Oldnodeid)
	if dir == nil || n == nil {
		return errStale
	}
	o := m.begin(cancel, &in.InHeader)
	defer m.end(o)
	o.changes(dir)
	o.made = givenName{dir, name}
	o.mayChange(n)
	began := m.tick()
	res, err := o.c().Link(o, &nfs3.LinkArgs{File: n.fh, Link: nfs3.DirOpArgs{Dir: dir.fh, Name: []byte(name)}})
	m.learnOwn(dir, began, &res.Dir.After)
	m.learnOwn(n, began, &res.Attr)
	dir.mayHave(name)
	unsure(err, dir, n)
	if err != nil {
		return m.fail(err)
	}
	status := m.enter(o, dir, name, sight{began: began, made: true}, n.fh, &nfs3.PostOpAttr{}, out)
	if status == fuse.OK && isShut(in.Oldnodeid) {
		shut(out) // a hard link made by the kernel keeps the file type
	}
	return status
}
