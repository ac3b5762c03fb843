package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// shutBit is set in the number of a special file that the kernel gets for
// callers that may not open the file.
//
// The kernel opens FIFOs, sockets and devices itself, without asking the file
// system for permission. With default_permissions the modes alone would decide,
// but the server has access control lists, and users of its own. However, the
// kernel looks up a name in the name of the walking process, if the name has no
// lifetime. Names of special files therefore have no lifetime, and a caller
// that may not open the object finds another object instead, for which the
// kernel does ask: an empty regular file that no caller may open. All other
// requests for either number act on the same node.
//
//	LOOKUP by an allowed caller  ─▶ number            ─▶ FIFO          ┐
//	LOOKUP by any other caller   ─▶ number | shutBit  ─▶ regular file  ┴─▶ node
//
// A process continues with the number it was given, whichever other processes
// walk there.
const shutBit = 1 << 63

// isShut reports whether id is the number of a node for callers that may not
// open it.
func isShut(id uint64) bool { return id&shutBit != 0 }

// isSpecial reports whether the kernel opens an object itself.
func isSpecial(mode uint32) bool {
	switch mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK:
		return true
	}
	return false
}

// guard shuts an entry that a caller has looked up if the caller may not open
// it. The kernel does not say for which access: a caller that may not both read
// and write gets neither. A socket is used only by writing to it.
//
// The kernel undoes all mounts on a name that leads to another number. A caller
// that may not open the object must not undo another's mount in this way, and a
// caller that may must not undo ours. But nobody can lock out callers that may open
// the object: a mount by an ordinary user in a namespace of its own does not count
// for them.
func (m *Mount) guard(o *op, dir *node, name string, out *fuse.EntryOut) fuse.Status {
	if !isSpecial(out.Attr.Mode) {
		return fuse.OK
	}
	want := nfs3.AccessRead | nfs3.AccessModify | nfs3.AccessExtend
	if out.Attr.Mode&unix.S_IFMT == unix.S_IFSOCK {
		want &^= nfs3.AccessRead
	}
	n := m.table.node(out.NodeId) // the kernel is being told of n
	allowed, err := m.may(o, n, want, 0)
	if err != nil {
		status := m.failOn(n, err)
		o.untell()
		return status
	}
	covered := m.coveredHere
	if allowed != want {
		shut(out)
		covered = m.coveredName
	}
	if m.table.switches(dir, name, out.NodeId) && covered(dir, name) {
		o.untell()
		return errCovered
	}
	m.table.toldSpecial(dir, name, out.NodeId)
	return fuse.OK
}

// shut turns the entry of a special file into the entry for callers that may
// not open it.
func shut(out *fuse.EntryOut) {
	out.NodeId |= shutBit
	shutAttr(&out.Attr)
}

func shutAttr(a *fuse.Attr) {
	a.Mode = unix.S_IFREG | a.Mode&^unix.S_IFMT
	a.Size, a.Blocks, a.Rdev = 0, 0, 0
}

// tellAttr is tell for a request that names n by the number id.
func (m *Mount) tellAttr(id uint64, n *node, out *fuse.AttrOut) {
	out.SetTimeout(m.tell(n, &out.Attr))
	if isShut(id) {
		shutAttr(&out.Attr)
	}
}

// switches reports whether the kernel knows a special file under a name by the
// other number than id.
func (t *table) switches(dir *node, name string, id uint64) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	was, known := t.specials[place{dir, name}]
	return known && was != isShut(id)
}

// toldSpecial records by which number the kernel knows a special file.
func (t *table) toldSpecial(dir *node, name string, id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := dir.asDir().names[name].node; n == nil || n.id != id&^shutBit {
		return
	}
	if t.specials == nil {
		t.specials = make(map[place]bool)
	}
	t.specials[place{dir, name}] = isShut(id)
}
