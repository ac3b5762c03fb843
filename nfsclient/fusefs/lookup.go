package fusefs

import (
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// Lookup implements fuse.RawFileSystem.
func (m *Mount) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if len(name) > int(m.nameMax) {
		// The kernel also looks up names that it is about to create. knfsd cannot
		// decode a call with a longer name.
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	dir := m.table.findNode(h.NodeId)
	if dir == nil {
		return errStale
	}
	o := m.beginRequest(cancel, h)
	defer m.endRequest(o)
	switch status := m.lookupName(o, dir, name, out); status {
	case fuse.OK, fuse.ENOENT, errStale:
		return status
	default:
		if m.table.findChild(dir, name) != nil && m.isCovered(dir, name) {
			return errCovered
		}
		return status
	}
}

func (m *Mount) lookupName(o *op, dir *node, name string, out *fuse.EntryOut) fuse.Status {
	switch n, grant, absent := m.lookupCached(o, dir, name); {
	case absent:
		return m.replyAbsent(o, dir, name, grant, out)
	case n != nil:
		o.referred = append(o.referred, n)
		m.fillEntry(o, dir, name, n, grant, out)
		return m.guardSpecial(o, dir, name, out)
	}
	m.acquireDelegation(o, dir, delegation.Directory) // its names are likely to be used again
	const search = nfs3.AccessLookup
	r := accessReply{asked: search, allowed: search, calledAt: m.nextTick(), serverTime: m.cfg.Held.ServerTime()}
	res, err := o.callerClient().Lookup(o, dir.fh, name)
	m.learnPostOpAttr(dir, r.calledAt, &res.DirAttr)
	r.attr = res.DirAttr
	m.recordSearchRight(o, dir, r, err)
	switch {
	case errors.Is(err, nfs3.ErrNoEnt):
		return m.handleNoEntry(o, dir, name, r.calledAt, &res.DirAttr, out)
	case err != nil:
		return m.nodeErrorStatus(dir, err)
	}
	if status := m.replyEntry(o, dir, name, sighting{began: r.calledAt}, res.Object, &res.ObjAttr, out); status != fuse.OK {
		return status
	}
	return m.guardSpecial(o, dir, name, out)
}

// handleNoEntry replies that name is not in dir. The kernel may cache the reply for
// as long as it caches dir's attributes. If another client removed dir itself,
// handleNoEntry fails instead: a new directory may have its name by now.
func (m *Mount) handleNoEntry(o *op, dir *node, name string, began uint64, a *nfs3.PostOpAttr, out *fuse.EntryOut) fuse.Status {
	m.table.removeName(dir, name)
	grant := dir.recordAbsent(name, sighting{began: began})
	err := m.learnOrFetchAttr(o, dir, began, a)
	if err == nil && dir.isRemoved() {
		err = errRemoved
	}
	if err != nil {
		return m.nodeErrorStatus(dir, err)
	}
	return m.replyAbsent(o, dir, name, grant, out)
}

// replyAbsent replies that name is not in dir. grant is the grant for dir under
// which this was seen, or 0.
func (m *Mount) replyAbsent(o *op, dir *node, name string, grant uint64, out *fuse.EntryOut) fuse.Status {
	life := m.nameLifetime(o, dir, name, grant, m.cfg.Lookup == LookupAll)
	if life == 0 {
		return fuse.ENOENT
	}
	*out = fuse.EntryOut{}
	out.SetEntryTimeout(life)
	return fuse.OK
}

// replyEntry gives the kernel the object at name in dir, as seen just now. It
// retains fh.
func (m *Mount) replyEntry(o *op, dir *node, name string, s sighting, fh nfs3.FH, a *nfs3.PostOpAttr, out *fuse.EntryOut) fuse.Status {
	s.stamp = dir.serverStamp()
	n, grant := m.table.referNode(fh, dir, name, s)
	if a.OK {
		m.learnAttr(n, s.began, &a.Attr)
	} else if err := m.fetchAttr(o, n); err != nil {
		m.table.dropReferences(n.id, 1)
		return m.errorStatus(err)
	}
	o.referred = append(o.referred, n)
	m.fillEntry(o, dir, name, n, grant, out)
	return fuse.OK
}

// replyCreated gives the kernel the object that a call has created. If the server
// did not return its handle, replyCreated looks it up.
func (m *Mount) replyCreated(o *op, dir *node, name string, began uint64, res *nfs3.MakeRes, out *fuse.EntryOut) fuse.Status {
	m.learnAfterChange(dir, began, &res.Dir.After)
	dir.keepDefaultList(&res.Dir)
	if res.Object != nil {
		return m.replyEntry(o, dir, name, sighting{began: began, made: true}, res.Object, &res.Attr, out)
	}
	began = m.nextTick()
	l, err := o.callerClient().Lookup(o, dir.fh, name)
	if err != nil {
		return m.errorStatus(err)
	}
	return m.replyEntry(o, dir, name, sighting{began: began}, l.Object, &l.ObjAttr, out)
}

// Forget implements fuse.RawFileSystem.
func (m *Mount) Forget(nodeid, count uint64) { m.table.dropReferences(nodeid, count) }
