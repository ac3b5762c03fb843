package fusefs

import "github.com/nfsrdma/nfsrdma/delegation"

// keeps tells whether n's data are held, and whether what the kernel has of them is
// current: it has read it all under this grant, and this mount has changed nothing
// since.
func (n *node) keeps(o *op) (held, current bool) {
	if !n.trusted(o, delegation.FileData) {
		return false, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.trustLocked(delegation.FileData) == 0 {
		return false, false
	}
	return true, n.pages >= n.grant && n.pages > n.changed
}

// opened notes that the kernel has opened f: it makes a request for it. If it had to
// drop pages, it has done so, and all that it has of the file it has read since: it
// waits for pages that are being read before it drops them.
func (f *file) opened() {
	if f.emptied.Load() == 0 {
		return
	}
	if tick := f.emptied.Swap(0); tick != 0 {
		f.n.mu.Lock()
		f.n.pages = max(f.n.pages, tick)
		f.n.mu.Unlock()
	}
}
