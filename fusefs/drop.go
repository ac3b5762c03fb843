package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
)

// Drop ends the caching of an object by its mount, including the kernel's
// attributes. A delegclient.Set that is given to New must have been made with
// Drop.
//
// The kernel ignores the attributes in a reply whose request is older than the
// notification about them, so a reply in flight does no harm. Pages of a file
// stay for programs that have the file open: the next open checks under which
// grant the pages were read.
func Drop(o *delegclient.Object, done func()) {
	n := o.Owner().(*node)
	n.m.drop(n)
	done()
}

func (m *Mount) drop(n *node) {
	now := m.tick()
	n.mu.Lock()
	n.grant, n.dropped, n.since, n.until = 0, now, now, 0
	using, lent := n.using, n.lent
	n.using = false
	d := n.directory.Load()
	if d != nil {
		d.loan.recallLocked(time.Now())
	}
	n.mu.Unlock()
	if using {
		n.object().Close()
	}
	m.expireLent(n, lent)
	if d != nil {
		m.forgetNames(n)
	}
}

// expireLent is expire for attributes that the kernel may believe until a time.
// If the kernel does not know n, its FORGET may still be on the way, and the
// kernel may be about to learn of n again from an older reply to LOOKUP.
// expireLent repeats the notification until the kernel takes it, has forgotten
// n for good, or the time is over.
func (m *Mount) expireLent(n *node, until instant) {
	for m.server.InodeNotify(n.id, -1, 0) == fuse.ENOENT && m.table.knows(n) && until.left() > 0 {
		time.Sleep(unknownPoll)
	}
}
