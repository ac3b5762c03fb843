package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// Unlink implements fuse.RawFileSystem.
func (m *Mount) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	dir := m.table.findNode(h.NodeId)
	if dir == nil {
		return errStale
	}
	o := m.beginRequest(cancel, h)
	defer m.endRequest(o)
	o.recordNameChanges(dir)
	n := m.table.findChild(dir, name)
	o.recordMayChange(n)
	if n != nil && m.table.isOpen(n) {
		return m.hideName(o, dir, name, n)
	}
	began := m.nextTick()
	wcc, err := o.callerClient().Remove(o, dir.fh, name)
	markIfUncertain(err, dir)
	return m.finishRemove(dir, name, n, began, &wcc, err)
}

// Rmdir implements fuse.RawFileSystem.
func (m *Mount) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	dir := m.table.findNode(h.NodeId)
	if dir == nil {
		return errStale
	}
	o := m.beginRequest(cancel, h)
	defer m.endRequest(o)
	o.recordNameChanges(dir)
	n := m.table.findChild(dir, name)
	o.recordMayChange(n)
	began := m.nextTick()
	var wcc nfs3.WccData
	err := retryNotEmpty(o, n, func() (err error) {
		wcc, err = o.callerClient().Rmdir(o, dir.fh, name)
		return err
	})
	markIfUncertain(err, dir)
	return m.finishRemove(dir, name, n, began, &wcc, err)
}

// finishRemove ends a request that removed a name in dir. n is the named node, or
// nil if unknown.
func (m *Mount) finishRemove(dir *node, name string, n *node, began uint64, wcc *nfs3.WccData, err error) fuse.Status {
	m.learnAfterChange(dir, began, &wcc.After)
	dir.keepDefaultList(wcc)
	if n != nil {
		m.invalidateAttr(n) // its link count and ctime
	}
	if err == nil {
		m.table.removeName(dir, name)
		dir.recordAbsent(name, sighting{began: began, made: true})
	} else {
		m.table.invalidateName(dir, name)
	}
	return m.errorStatus(err)
}

// Rename implements fuse.RawFileSystem. NFS supports none of the flags.
func (m *Mount) Rename(cancel <-chan struct{}, in *fuse.RenameIn, name, newName string) fuse.Status {
	from, to := m.table.findNode(in.NodeId), m.table.findNode(in.Newdir)
	switch {
	case in.Flags != 0:
		return fuse.EINVAL
	case from == nil || to == nil:
		return errStale
	}
	o := m.beginRequest(cancel, &in.InHeader)
	defer m.endRequest(o)
	o.recordNameChanges(from, to)
	o.createdName = givenName{to, newName}
	m.lendMovedName(from, to, newName)
	n, over := m.table.findChild(from, name), m.table.findChild(to, newName)
	o.recordMayChange(n, over)
	hidden := false
	if over != nil && over != n && m.table.isOpen(over) {
		if status := m.hideName(o, to, newName, over); status != fuse.OK {
			return status
		}
		hidden = true
	}
	began := m.nextTick()
	err := retryNotEmpty(o, over, func() error { return m.renameObject(o, o.callerClient(), from, name, to, newName) })
	switch {
	case err == nil:
		m.table.moveName(from, name, to, newName, began)
		m.expireMovedName(from, to)
		from.recordAbsent(name, sighting{began: began, made: true})
	case hidden:
		m.restoreName(o, to, newName, over)
	}
	if err != nil {
		m.table.invalidateName(from, name)
		m.table.invalidateName(to, newName)
	}
	for _, n := range []*node{n, over} {
		if n != nil {
			m.invalidateAttr(n)
		}
	}
	return m.errorStatus(err)
}

// Link implements fuse.RawFileSystem.
func (m *Mount) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	dir, n := m.table.findNode(in.NodeId), m.table.findNode(in.Oldnodeid)
	if dir == nil || n == nil {
		return errStale
	}
	o := m.beginRequest(cancel, &in.InHeader)
	defer m.endRequest(o)
	o.recordNameChanges(dir)
	o.createdName = givenName{dir, name}
	o.recordMayChange(n)
	began := m.nextTick()
	res, err := o.callerClient().Link(o, &nfs3.LinkArgs{File: n.fh, Link: nfs3.DirOpArgs{Dir: dir.fh, Name: []byte(name)}})
	m.learnAfterChange(dir, began, &res.Dir.After)
	m.learnAfterChange(n, began, &res.Attr)
	dir.forgetAbsent(name)
	markIfUncertain(err, dir, n)
	if err != nil {
		return m.errorStatus(err)
	}
	status := m.replyEntry(o, dir, name, sighting{began: began, made: true}, n.fh, &nfs3.PostOpAttr{}, out)
	if status == fuse.OK && isSubstitute(in.Oldnodeid) {
		substituteEntry(out) // a hard link created by the kernel keeps the file type
	}
	return status
}
