package fusefs

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// referCached answers a LOOKUP from the cache if the caller may search dir. If dir
// is delegated, the name, or its absence, must have been seen under the current
// grant, which lookupCached returns. If dir cannot be delegated, dir must not have
// changed since the name was seen, as far as its cached attributes show, the
// object's attributes must be fresh, and the LOOKUP must not be for an exclusive
// creation; grant is then 0. A returned node counts as one more kernel reference.
func (m *Mount) lookupCached(o *op, dir *node, name string) (n *node, grant uint64, absent bool) {
	if m.cfg.Lookup == LookupNone {
		return nil, 0, false
	}
	seen, grant, ok := m.maySearch(o, dir)
	switch {
	case !ok || grant == 0 && m.isDelegatable(dir):
		return nil, 0, false
	case dir.isKnownAbsent(name, grant):
		return nil, grant, m.cfg.Lookup == LookupAll
	}
	n = m.table.referCached(dir, name, seen, grant)
	if n != nil && grant == 0 && (n.freshTime() == 0 || o.mayCreateExclusively()) {
		m.table.dropReferences(n.id, 1)
		return nil, 0, false
	}
	return n, grant, false
}

// maySearch reports whether the caller is known to be allowed to search dir,
// whose attributes must be fresh. It also returns dir's state, and the grant
// under which its names may be served, or 0.
func (m *Mount) maySearch(o *op, dir *node) (seen delegation.Stamp, grant uint64, ok bool) {
	who := o.requestCaller()
	held := dir.ensureTrusted(o, delegation.Directory)
	dir.mu.Lock()
	defer dir.mu.Unlock()
	if dir.freshTimeLocked() == 0 {
		return noStamp, 0, false
	}
	if held && dir.learnedAt >= dir.grant && dir.trustTimeLocked(delegation.Directory) > 0 {
		grant = dir.grant
	}
	if !m.isPublicDir(&dir.attr) {
		allowed, known := dir.cachedRightsLocked(who, nfs3.AccessLookup)
		return attrStamp(&dir.attr), grant, known && allowed != 0
	}
	return attrStamp(&dir.attr), grant, true
}

// recordSearchRight records whether the server let a caller search dir.
func (m *Mount) recordSearchRight(o *op, dir *node, r accessReply, err error) {
	if err != nil && !errors.Is(err, nfs3.ErrNoEnt) || dir.isPublic(m) {
		return
	}
	dir.recordRights(o.requestCaller(), r)
}

// isPublic reports whether all users who can reach n may search it.
func (n *node) isPublic(m *Mount) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return m.isPublicDir(&n.attr)
}
