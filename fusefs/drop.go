package fusefs

import (
	"time"

	"github.com/nfsrdma/nfsrdma/holdings"
)

// Drop is what a holdings.Set that is given to New is to be made with: it ends what is
// served of an object by the mount that has it, the kernel's attributes included.
//
// The kernel leaves out what a reply says of attributes where its request is older than
// the note about them, so a reply under way does no harm. The pages of a file stay,
// for those who have it open: the next who opens it looks at under which grant they
// were read.
func Drop(o *holdings.Object, done func()) {
	n := o.Owner().(*node)
	n.m.drop(n)
	done()
}

func (m *Mount) drop(n *node) {
	now := m.tick()
	n.mu.Lock()
	n.grant, n.since, n.until = 0, now, time.Time{}
	using, lent := n.using, n.names
	n.using = false
	n.mu.Unlock()
	if using {
		n.object.Close()
	}
	m.expire(n)
	m.forgetNames(lent)
}
