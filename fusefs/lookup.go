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
		// The kernel also looks up names that it wants to make. knfsd takes no
		// longer name in a call that it can decode.
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	dir := m.table.node(h.NodeId)
	if dir == nil {
		return errStale
	}
	o := m.begin(cancel, h)
	defer m.end(o)
	switch status := m.lookup(o, dir, name, out); status {
	case fuse.OK, fuse.ENOENT, errStale:
		return status
	default:
		if m.table.child(dir, name) != nil && m.coveredName(dir, name) {
			return errCovered
		}
		return status
	}
}

func (m *Mount) lookup(o *op, dir *node, name string, out *fuse.EntryOut) fuse.Status {
	switch n, grant, absent := m.lookupCached(o, dir, name); {
	case absent:
		return m.tellAbsent(o, dir, name, grant, out)
	case n != nil:
		o.referred = append(o.referred, n)
		m.tellEntry(o, dir, name, n, grant, out)
		return m.guard(o, dir, name, out)
	}
	m.acquire(o, dir, delegation.Directory) // its names are soon wanted again
	const search = nfs3.AccessLookup
	r := reply{asked: search, allowed: search, began: m.tick(), read: m.cfg.Held.ServerTime()}
	res, err := o.c().Lookup(o, dir.fh, name)
	m.learnPost(dir, r.began, &res.DirAttr)
	r.attr = res.DirAttr
	m.searched(o, dir, r, err)
	switch {
	case errors.Is(err, nfs3.ErrNoEnt):
		return m.noEntry(o, dir, name, r.began, &res.DirAttr, out)
	case err != nil:
		return m.failOn(dir, err)
	}
	if status := m.enter(o, dir, name, sight{began: r.began}, res.Object, &res.ObjAttr, out); status != fuse.OK {
		return status
	}
	return m.guard(o, dir, name, out)
}

// noEntry answers that name is not in dir. The kernel may cache the answer for
// as long as it believes dir's attributes. If another client removed dir
// itself, noEntry fails instead: a new directory may have its name by now.
func (m *Mount) noEntry(o *op, dir *node, name string, began uint64, a *nfs3.PostOpAttr, out *fuse.EntryOut) fuse.Status {
	m.table.unname(dir, name)
	grant := dir.lacks(name, sight{began: began})
	err := m.learnOrFetch(o, dir, began, a)
	if err == nil && dir.removed() {
		err = errRemoved
	}
	if err != nil {
		return m.failOn(dir, err)
	}
	return m.tellAbsent(o, dir, name, grant, out)
}

// tellAbsent answers that name is not in dir. grant is the grant of dir under
// which this was seen, or 0.
func (m *Mount) tellAbsent(o *op, dir *node, name string, grant uint64, out *fuse.EntryOut) fuse.Status {
	life := m.nameLife(o, dir, name, grant, m.cfg.Lookup == LookupAll)
	if life == 0 {
		return fuse.ENOENT
	}
	*out = fuse.EntryOut{}
	out.SetEntryTimeout(life)
	return fuse.OK
}

// enter tells the kernel of the object at name in dir, as seen just now. It
// keeps fh.
func (m *Mount) enter(o *op, dir *node, name string, s sight, fh nfs3.FH, a *nfs3.PostOpAttr, out *fuse.EntryOut) fuse.Status {
	s.mtime = dir.mtime()
	n, grant := m.table.refer(fh, dir, name, s)
	if a.OK {
		m.learn(n, s.began, &a.Attr)
	} else if err := m.fetch(o, n); err != nil {
		m.table.forget(n.id, 1)
		return m.fail(err)
	}
	o.referred = append(o.referred, n)
	m.tellEntry(o, dir, name, n, grant, out)
	return fuse.OK
}

// found is enter for an object that a call has made. If the server did not
// return its handle, found looks it up.
func (m *Mount) found(o *op, dir *node, name string, began uint64, res *nfs3.MakeRes, out *fuse.EntryOut) fuse.Status {
	m.learnOwn(dir, began, &res.Dir.After)
	if res.Object != nil {
		return m.enter(o, dir, name, sight{began: began, made: true}, res.Object, &res.Attr, out)
	}
	began = m.tick()
	l, err := o.c().Lookup(o, dir.fh, name)
	if err != nil {
		return m.fail(err)
	}
	return m.enter(o, dir, name, sight{began: began}, l.Object, &l.ObjAttr, out)
}

// Forget implements fuse.RawFileSystem.
func (m *Mount) Forget(nodeid, count uint64) { m.table.forget(nodeid, count) }
