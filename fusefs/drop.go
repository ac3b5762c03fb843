package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
)

// Drop is what a delegclient.Set that is given to New is to be made with: it ends what is
// served of an object by the mount that has it, the kernel's attributes included.
//
// The kernel leaves out what a reply says of attributes where its request is older than
// the note about them, so a reply under way does no harm. The pages of a file stay,
// for those who have it open: the next who opens it looks at under which grant they
// were read.
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

// expireLent is expire for what the kernel was told of n, which it may believe until a
// time. Where the kernel does not know n, it has forgotten it, which we have yet to
// hear, and may be about to learn of it again from a reply to LOOKUP that is older than
// this: that is waited for.
func (m *Mount) expireLent(n *node, until instant) {
	for m.server.InodeNotify(n.id, -1, 0) == fuse.ENOENT && m.table.knows(n) && until.left() > 0 {
		time.Sleep(unknownPoll)
	}
}
