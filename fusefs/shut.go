package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// The kernel opens FIFOs, sockets and devices itself, and asks nobody who may: that the
// modes alone decide (default_permissions) would not be so at the server, which has access
// control lists, and users of its own. But it looks a name up in the name of who walks
// over it, if the name has no lifetime. So the names of special files have none, and who
// may not open what is there finds another object, of which it does ask: an empty regular
// file that nobody may open. All else that is done to either is done to the same node.
//
//	LOOKUP by who may      ─▶ number            ─▶ FIFO          ┐
//	LOOKUP by who may not  ─▶ number | shutBit  ─▶ regular file  ┴─▶ node
//
// A process goes on with the number that it was answered, whoever else walks there.
const shutBit = 1 << 63

// isShut tells whether the kernel's number of a node is that for who may not open it.
func isShut(id uint64) bool { return id&shutBit != 0 }

// isSpecial tells whether the kernel opens an object itself.
func isSpecial(mode uint32) bool {
	switch mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK:
		return true
	}
	return false
}

// guard makes an entry that a caller has looked up what it may have of it. The kernel
// does not tell what for: who may not read and write alike gets neither. Sockets are
// written to, or not used.
func (m *Mount) guard(o *op, out *fuse.EntryOut) fuse.Status {
	if !isSpecial(out.Attr.Mode) {
		return fuse.OK
	}
	want := nfs3.AccessRead | nfs3.AccessModify | nfs3.AccessExtend
	if out.Attr.Mode&unix.S_IFMT == unix.S_IFSOCK {
		want &^= nfs3.AccessRead
	}
	n := m.table.node(out.NodeId) // which the kernel is being told of
	allowed, err := m.may(o, n, want, 0)
	if err != nil {
		status := m.failOn(n, err)
		o.untell()
		return status
	}
	if allowed != want {
		shut(out)
	}
	return fuse.OK
}

// shut makes an entry of a special file one for who may not open it.
func shut(out *fuse.EntryOut) {
	out.NodeId |= shutBit
	shutAttr(&out.Attr)
}

func shutAttr(a *fuse.Attr) {
	a.Mode = unix.S_IFREG | a.Mode&^unix.S_IFMT
	a.Size, a.Blocks, a.Rdev = 0, 0, 0
}

// tellAttr is tell for who knows n by one of its numbers.
func (m *Mount) tellAttr(id uint64, n *node, out *fuse.AttrOut) {
	out.SetTimeout(m.tell(n, &out.Attr))
	if isShut(id) {
		shutAttr(&out.Attr)
	}
}
