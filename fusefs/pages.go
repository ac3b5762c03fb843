package fusefs

import "github.com/nfsrdma/nfsrdma/delegation"

// A pages is since when the kernel has read all the data that it has of a file: a tick,
// what the server's clock showed at least, and how the file was.
type pages struct {
	tick  uint64
	read  int64
	stamp delegation.Stamp
}

// keeps tells whether what the kernel has of n's data, which is being opened, is known
// to be current or not; known is false where n cannot be held. It is current if nothing
// was changed from here since the kernel began to read it, and nothing elsewhere: it was
// read under the grant in force, or no change shows in n's attributes, nor could be
// hidden by the tick of the server's clock.
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

// emptied returns what the kernel will have of n's data when it has dropped all that it
// has.
func (m *Mount) emptied(n *node) *pages {
	p := &pages{tick: m.tick(), read: m.cfg.Held.ServerTime()}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.until != 0 { // else nothing is like it
		p.stamp = stampOf(&n.attr)
	}
	return p
}

// opened notes that the kernel has opened f: it makes a request for it. If it had to
// drop pages, it has done so, and all that it has of the file it has read since: it
// waits for pages that are being read before it drops them.
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

// forgotten notes that the kernel has nothing of n any more.
func (n *node) forgotten() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pages = nil
}
