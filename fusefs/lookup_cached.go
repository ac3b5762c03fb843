package fusefs

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// lookupCached answers a LOOKUP from what is known, where the caller may search: the
// directory is held, and the name was seen under that grant, to be there or not. Or,
// where it cannot be held, it has not changed since the name was seen in it, as far as
// its attributes may be believed, and so may those of the object. The kernel is told
// of the object once more. The grant of dir under which that is so is 0 in the latter
// case.
func (m *Mount) lookupCached(o *op, dir *node, name string) (n *node, grant uint64, absent bool) {
	if m.cfg.Lookup == LookupNone {
		return nil, 0, false
	}
	mtime, grant, ok := m.maySearch(o, dir)
	switch {
	case !ok || grant == 0 && m.holdable(dir):
		return nil, 0, false
	case dir.lacking(name, grant):
		return nil, grant, m.cfg.Lookup == LookupAll
	}
	n = m.table.lookupCached(dir, name, mtime, grant)
	if n != nil && grant == 0 && n.fresh() == 0 {
		m.table.forget(n.id, 1)
		return nil, 0, false
	}
	return n, grant, false
}

// maySearch tells whether the caller is known to be allowed to search dir, of
// which the attributes may be believed, its mtime, and the grant under which its names
// may be served, if any.
func (m *Mount) maySearch(o *op, dir *node) (mtime nfs3.Time, grant uint64, ok bool) {
	who := o.who()
	held := dir.trusted(o, delegation.Directory)
	dir.mu.Lock()
	defer dir.mu.Unlock()
	if dir.freshLocked() == 0 {
		return mtime, 0, false
	}
	if held && dir.learnt >= dir.grant && dir.trustLocked(delegation.Directory) > 0 {
		grant = dir.grant
	}
	if !m.public(&dir.attr) {
		allowed, known := dir.allowedLocked(who, nfs3.AccessLookup)
		return dir.attr.Mtime, grant, known && allowed != 0
	}
	return dir.attr.Mtime, grant, true
}

// searched takes note that the server searched dir for a caller, or would not.
func (m *Mount) searched(o *op, dir *node, r reply, err error) {
	if err != nil && !errors.Is(err, nfs3.ErrNoEnt) || dir.isPublic(m) {
		return
	}
	dir.allow(o.who(), r)
}

// isPublic is public for a node.
func (n *node) isPublic(m *Mount) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return m.public(&n.attr)
}

// mtime returns the last mtime of a directory that the server told, or noTime.
func (n *node) mtime() nfs3.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known || n.until == 0 {
		return noTime
	}
	return n.attr.Mtime
}
