package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// substituteBit is set in the number that the kernel gets for a special file if the
// caller may not open it.
//
// The kernel opens FIFOs, sockets and devices itself, without asking the file
// system for permission. With default_permissions only the modes would count, but
// the server has access control lists, and users of its own. However, the kernel
// looks up a name with the identity of the walking process, if the name has no
// lifetime. Names of special files therefore have no lifetime, and a caller that
// may not open the object finds another object instead, for which the kernel does
// ask: an empty regular file that no caller may open. All other requests for either
// number act on the same node.
//
//	LOOKUP by an allowed caller  ─▶ number            ─▶ FIFO          ┐
//	LOOKUP by any other caller   ─▶ number | substituteBit  ─▶ regular file  ┴─▶ node
//
// A process continues with the number it was given, whichever other processes
// walk there.
const substituteBit = 1 << 63

// isSubstitute reports whether id is a node's number for callers that may not open
// it.
func isSubstitute(id uint64) bool { return id&substituteBit != 0 }

// isSpecial reports whether the kernel opens an object itself.
func isSpecial(mode uint32) bool {
	switch mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK:
		return true
	}
	return false
}

// guardSpecial replaces an entry that a caller has looked up by the substitute if
// the caller may not open it. The kernel does not tell for which access: a caller
// that may not both read and write gets neither. A socket is used only by writing
// to it.
//
// The kernel unmounts everything on a name that leads to another number. A caller
// that may not open the object must not unmount another's mount in this way, and a
// caller that may must not unmount ours. But no user can lock out callers that may
// open the object: a mount by an ordinary user in its own namespace does not count
// for them.
func (m *Mount) guardSpecial(o *op, dir *node, name string, out *fuse.EntryOut) fuse.Status {
	if !isSpecial(out.Attr.Mode) {
		return fuse.OK
	}
	want := nfs3.AccessRead | nfs3.AccessModify | nfs3.AccessExtend
	if out.Attr.Mode&unix.S_IFMT == unix.S_IFSOCK {
		want &^= nfs3.AccessRead
	}
	n := m.table.findNode(out.NodeId) // the reply gives the kernel n
	allowed, err := m.checkRights(o, n, want, 0)
	if err != nil {
		status := m.nodeErrorStatus(n, err)
		o.undoLastReference()
		return status
	}
	covered := m.isCoveredHere
	if allowed != want {
		substituteEntry(out)
		covered = m.isCovered
	}
	if m.table.knowsOtherNumber(dir, name, out.NodeId) && covered(dir, name) {
		o.undoLastReference()
		return errCovered
	}
	m.table.recordSpecial(dir, name, out.NodeId)
	return fuse.OK
}

// substituteEntry turns a special file's entry into the entry for callers that may
// not open it.
func substituteEntry(out *fuse.EntryOut) {
	out.NodeId |= substituteBit
	substituteAttr(&out.Attr)
}

func substituteAttr(a *fuse.Attr) {
	a.Mode = unix.S_IFREG | a.Mode&^unix.S_IFMT
	a.Size, a.Blocks, a.Rdev = 0, 0, 0
}

// fillAttrOut writes n's attributes for a request that identifies n by the number
// id.
func (m *Mount) fillAttrOut(id uint64, n *node, out *fuse.AttrOut) {
	out.SetTimeout(m.fillAttr(n, &out.Attr))
	if isSubstitute(id) {
		substituteAttr(&out.Attr)
	}
}

// knowsOtherNumber reports whether the kernel knows the special file at a name by
// another number than id.
func (t *nodeTable) knowsOtherNumber(dir *node, name string, id uint64) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	was, known := t.specials[place{dir, name}]
	return known && was != isSubstitute(id)
}

// recordSpecial records the number by which the kernel knows a special file.
func (t *nodeTable) recordSpecial(dir *node, name string, id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := dir.directoryState().names[name].node; n == nil || n.id != id&^substituteBit {
		return
	}
	if t.specials == nil {
		t.specials = make(map[place]bool)
	}
	t.specials[place{dir, name}] = isSubstitute(id)
}
