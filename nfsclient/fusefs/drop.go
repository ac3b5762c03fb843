package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
)

// Drop ends the caching of an object by its mount, including the kernel's
// attributes. A delegclient.Set that is passed to New must have been created with
// Drop.
//
// The kernel ignores the attributes in a reply whose request is older than the
// notification about them, so a reply in flight is harmless. Pages of a file stay
// for programs that have the file open: the next open checks under which grant the
// pages were read.
func Drop(o *delegclient.Object, done func()) {
	n := o.Owner().(*node)
	n.m.dropDelegation(n)
	done()
}

func (m *Mount) dropDelegation(n *node) {
	now := m.nextTick()
	n.mu.Lock()
	n.grant, n.droppedAt, n.validFrom, n.freshUntil = 0, now, now, 0
	using, lent := n.using, n.lentUntil
	n.using = false
	d := n.directory.Load()
	if d != nil {
		d.loan.countRecallLocked(time.Now())
	}
	n.mu.Unlock()
	if using {
		n.delegationObject().Close()
	}
	m.expireLent(n, lent)
	if d != nil {
		m.recallLentNames(n)
	}
}

// expireLent makes the kernel fetch n's attributes again, which it may cache until
// a time. If the kernel does not know n, its FORGET may still be in flight, and an
// older reply to LOOKUP may be about to give it n again. expireLent repeats the
// notification until the kernel accepts it, has permanently forgotten n, or the
// time has passed.
func (m *Mount) expireLent(n *node, until instant) {
	n.trustedUntil.clear()
	for m.server.InodeNotify(n.id, -1, 0) == fuse.ENOENT && m.table.isKnownToKernel(n) && until.timeLeft() > 0 {
		time.Sleep(unknownPoll)
	}
}
