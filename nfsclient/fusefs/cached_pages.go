package fusefs

import (
	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A cachedPages describes when the kernel began to read its current data of a file:
// a tick, a lower bound of the server's clock, and the file's state at that time.
type cachedPages struct {
	tick  uint64
	read  int64
	stamp delegation.Stamp
}

// mayKeepPages reports whether the kernel's data of n, which is being opened, are
// current: neither this mount nor another client has changed anything since the
// kernel began to read them. Either they were read under the grant in force, or n's
// attributes show no change. If n can be delegated, the granularity of the server's
// clock must not hide a change either; otherwise that is the consistency of NFSv3.
func (m *Mount) mayKeepPages(o *op, n *node) bool {
	held := n.ensureTrusted(o, delegation.FileData)
	exact := m.isDelegatable(n)
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pages
	switch {
	case p == nil || p.tick <= n.dataChangedAt || n.freshUntil == 0:
		return false
	case held && p.tick >= n.grant && n.trustTimeLocked(delegation.FileData) > 0:
		return true
	case exact:
		return delegation.Unchanged(p.stamp, attrStamp(&n.attr), p.read)
	}
	return p.stamp == attrStamp(&n.attr)
}

// hasOutdatedPages reports whether n's attributes show that another client has
// changed the file since the kernel began to read its current data.
func (n *node) hasOutdatedPages() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pages
	return p != nil && p.tick > n.dataChangedAt && n.freshUntil != 0 && p.stamp != attrStamp(&n.attr) &&
		(p.tick < n.grant || n.trustTimeLocked(delegation.FileData) == 0)
}

// looksUnchanged reports whether n's size and mtime are those that the kernel was
// given, so that the kernel notices no change.
func (n *node) looksUnchanged() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.writtenStampLocked()
	return n.toldStamp.Size == now.Size && n.toldStamp.MTime == now.MTime
}

// showChange prepares a reply to LOOKUP or GETATTR if n has outdated pages. The
// kernel drops its data of a file itself when such a reply has another size or
// mtime than the kernel knows. showChange reports whether the reply has.
func (m *Mount) showChange(n *node) bool {
	if n.looksUnchanged() {
		return false
	}
	n.setPages(m.newCachedPages(n))
	return true
}

// dropPages makes the kernel drop its data of n. The caller handles a request
// during which the kernel keeps n and locks none of its pages. The kernel ignores
// the attributes in the reply, because a notification is newer: it must know n's
// size already, or it would read to an old end.
func (m *Mount) dropPages(n *node) {
	p := m.newCachedPages(n)
	n.trustedUntil.clear()
	_ = m.server.InodeNotify(n.id, 0, 0) // all data
	n.setPages(p)
}

// setPages records that all the kernel's current data of n were read after p.
func (n *node) setPages(p *cachedPages) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pages == nil || p.tick > n.pages.tick {
		n.pages = p
	}
}

// recordOwnChange records a change of n by this mount that does not affect the
// data. If the reply shows that no other client has changed n either, the kernel's
// data are those of the new state.
func (n *node) recordOwnChange(wcc *nfs3.WccData) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pages; p != nil && wcc.After.OK && p.stamp == preOpStamp(&wcc.Before) {
		p.stamp = attrStamp(&wcc.After.Attr)
	}
}

// hasPagesUnderGrant reports whether the kernel has read its data of n under the
// grant in force.
func (n *node) hasPagesUnderGrant() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pages != nil && n.pages.tick >= n.grant && n.trustTimeLocked(delegation.FileData) > 0
}

// newCachedPages returns the cachedPages that n will have once the kernel has
// dropped its current data.
func (m *Mount) newCachedPages(n *node) *cachedPages {
	p := &cachedPages{tick: m.nextTick(), read: m.cfg.Held.ServerTime()}
	p.stamp = n.serverStamp()
	return p
}

// confirmOpened records that the kernel has opened f; every request for f shows
// that. If the kernel had to drop pages, it has done so, and has read all its
// current pages since: the kernel waits for pages being read before it drops pages.
func (f *openFile) confirmOpened() {
	if f.emptied.Load() == nil {
		return
	}
	if p := f.emptied.Swap(nil); p != nil {
		f.n.setPages(p)
	}
}

// forgetPages records that the kernel has dropped n's pages.
func (n *node) forgetPages() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pages = nil
}
