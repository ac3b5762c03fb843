package fusefs

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// lookupCached answers a LOOKUP from the cache if the caller may search dir. If
// dir is delegated, the name, or its absence, must have been seen under the
// present grant, which lookupCached returns. If dir cannot be delegated, dir
// must not have changed since the name was seen, as far as its attributes may
// be believed, and the object's attributes must be fresh; grant is then 0. A
// returned node counts as told to the kernel once again.
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

// maySearch reports whether the caller is known to be allowed to search dir,
// whose attributes must be fresh. It also returns dir's mtime, and the grant
// under which its names may be served, or 0.
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

// searched records whether the server let a caller search dir.
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

// mtime returns the last mtime of a directory that the server reported, or
// noTime.
func (n *node) mtime() nfs3.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known || n.until == 0 {
		return noTime
	}
	return n.attr.Mtime
}
