package mem

import "github.com/nfsrdma/nfsrdma/vfs"

// A node is an object.
type node struct {
	attr     vfs.Attr
	clusters map[uint64]*cluster // a file's, by page number over clusterLen; a missing page has zeros
	target   string              // a symbolic link's
	names    *names              // a directory's
	parent   *node               // a directory's
	xattrs   map[string]string   // a file's or a directory's, by name

	opens     int    // open files
	verifier  uint64 // the exclusive create's that made it
	exclusive bool   // and no attributes were set since
}

// newNode creates an object owned by c, without a name.
func (f *FS) newNode(t vfs.Type, c *vfs.Cred, mode uint32) *node {
	f.nextID++
	now := f.nextTime()
	n := &node{attr: vfs.Attr{
		Type: t, Mode: mode, Nlink: 1, UID: c.UID, GID: c.GID, FSID: f.boot, FileID: f.nextID,
		Atime: now, Mtime: now, Ctime: now, HasBirth: true, Birth: now,
	}}
	if t == vfs.TypeDir {
		n.names = newNames()
	}
	f.nodes[f.nextID] = n
	return n
}

// maybeAttr returns n's attributes, unless n is nil.
func (n *node) maybeAttr() vfs.MaybeAttr {
	if n == nil {
		return vfs.MaybeAttr{}
	}
	return vfs.MaybeAttr{OK: true, Attr: n.currentAttr()}
}

// currentAttr returns n's attributes. No two changes have the same ctime.
func (n *node) currentAttr() vfs.Attr {
	a := n.attr
	a.HasChange, a.Change = true, changeOf(a.Ctime)
	return a
}

// OrdersChanges implements vfs.ChangeOrderer.
func (f *FS) OrdersChanges() bool { return true }

func changeOf(ctime vfs.Time) uint64 { return uint64(ctime.Sec)*1e9 + uint64(ctime.Nsec) }

// unchangedWCC returns n's WCC data before a change, or none if n is nil.
func (n *node) unchangedWCC() vfs.WCC {
	if n == nil {
		return vfs.WCC{}
	}
	a := &n.attr
	before := vfs.PreAttr{OK: true, Size: a.Size, Mtime: a.Mtime, Ctime: a.Ctime, HasChange: true, Change: changeOf(a.Ctime)}
	return vfs.WCC{Before: before, After: n.maybeAttr()}
}

// noteModified records that n's contents have changed.
func (f *FS) noteModified(n *node) {
	n.attr.Mtime = f.nextTime()
	n.attr.Ctime = n.attr.Mtime
}

// noteUnlinked records that n has lost a name; with its last name the object is
// freed, unless it is open.
func (f *FS) noteUnlinked(n *node) {
	n.attr.Ctime = f.nextTime()
	if n.attr.Type == vfs.TypeDir {
		n.parent.attr.Nlink--
		n.attr.Nlink = 0
	} else {
		n.attr.Nlink--
	}
	f.freeUnused(n)
}

// freeUnused frees n if it has no name and is not open.
func (f *FS) freeUnused(n *node) {
	if n.attr.Nlink > 0 || n.opens > 0 {
		return
	}
	f.truncateNode(n, 0)
	f.freeXattrs(n)
	f.used -= objectCost + int64(len(n.target))
	delete(f.nodes, n.attr.FileID)
}

var _ vfs.Identifier = (*FS)(nil)

// AppendKey appends the handle's bytes: an object has only one (vfs.Identifier).
func (f *FS) AppendKey(b []byte, h vfs.Handle) ([]byte, error) {
	if h.Len() != handleLen {
		return b, vfs.ErrBadHandle
	}
	return h.AppendTo(b), nil
}
