package fusefs

import "github.com/nfsrdma/nfsrdma/delegation"

// A pages describes when the kernel began to read its present data of a file: a
// tick, a lower bound of the server's clock, and the file's state then.
type pages struct {
	tick  uint64
	read  int64
	stamp delegation.Stamp
}

// keeps reports whether the kernel's data of n, which is being opened, are
// current. known is false if n cannot be held. The data are current if nothing
// has changed since the kernel began to read them, neither from here nor
// elsewhere: they were read under the grant in force, or n's attributes show no
// change and the granularity of the server's clock cannot hide one.
func (m *Mount) keeps(o *op, n *node) (known, current bool) {
	held := n.trusted(o, delegation.FileData)
	if !held && !m.holdable(n) {
		return false, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pages
	if p == nil || p.tick <= n.changed || n.until == 0 {
		return true, false
	}
	held = held && p.tick >= n.grant && n.trustLocked(delegation.FileData) > 0
	return true, held || delegation.Unchanged(p.stamp, stampOf(&n.attr), p.read)
}

// readHeld reports whether the kernel has read its data of n under the grant in force.
func (n *node) readHeld() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pages != nil && n.pages.tick >= n.grant && n.trustLocked(delegation.FileData) > 0
}

// emptied returns the pages that n will have once the kernel has dropped its
// present data.
func (m *Mount) emptied(n *node) *pages {
	p := &pages{tick: m.tick(), read: m.cfg.Held.ServerTime()}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.until != 0 { // otherwise the stamp matches nothing
		p.stamp = stampOf(&n.attr)
	}
	return p
}

// opened records that the kernel has opened f; every request for f shows that.
// If the kernel had to drop pages, it has done so, and has read all its present
// pages since: the kernel waits for pages being read before it drops pages.
func (f *file) opened() {
	if f.emptied.Load() == nil {
		return
	}
	if p := f.emptied.Swap(nil); p != nil {
		f.n.mu.Lock()
		defer f.n.mu.Unlock()
		if f.n.pages == nil || p.tick > f.n.pages.tick {
			f.n.pages = p
		}
	}
}

// forgotten records that the kernel has nothing of n any more.
func (n *node) forgotten() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pages = nil
}
