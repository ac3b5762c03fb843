package mem

import "github.com/nfsrdma/nfsrdma/vfs"

// A node is an object.
type node struct {
	attr     vfs.Attr
	clusters map[uint64]*cluster // of a file, by page number over clusterLen; a missing page has zeros
	target   string              // of a symbolic link
	names    *names              // of a directory
	parent   *node               // of a directory
	xattrs   map[string]string   // of a file or a directory, by name

	opens     int    // open files
	verifier  uint64 // of the exclusive create that made it
	exclusive bool   // and no attributes were set since
}

// newNode makes an object owned by c, without a name.
func (f *FS) newNode(t vfs.Type, c *vfs.Cred, mode uint32) *node {
	f.nextID++
	now := f.now()
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

// some returns the attributes of n, if there is one.
func (n *node) some() vfs.MaybeAttr {
	if n == nil {
		return vfs.MaybeAttr{}
	}
	return vfs.MaybeAttr{OK: true, Attr: n.attributes()}
}

// attributes returns the attributes of n. No two changes have the same ctime.
func (n *node) attributes() vfs.Attr {
	a := n.attr
	a.HasChange, a.Change = true, change(a.Ctime)
	return a
}

func change(ctime vfs.Time) uint64 { return uint64(ctime.Sec)*1e9 + uint64(ctime.Nsec) }

// unchanged is the WCC data of n before a change, or empty if n is nil.
func (n *node) unchanged() vfs.WCC {
	if n == nil {
		return vfs.WCC{}
	}
	a := &n.attr
	before := vfs.PreAttr{OK: true, Size: a.Size, Mtime: a.Mtime, Ctime: a.Ctime, HasChange: true, Change: change(a.Ctime)}
	return vfs.WCC{Before: before, After: n.some()}
}

// modified records that the contents of n have changed.
func (f *FS) modified(n *node) {
	n.attr.Mtime = f.now()
	n.attr.Ctime = n.attr.Mtime
}

// unlinked records that n has lost a name; with its last name the object is
// freed, unless it is open.
func (f *FS) unlinked(n *node) {
	n.attr.Ctime = f.now()
	if n.attr.Type == vfs.TypeDir {
		n.parent.attr.Nlink--
		n.attr.Nlink = 0
	} else {
		n.attr.Nlink--
	}
	f.free(n)
}

// free frees n if it has no name and is not open.
func (f *FS) free(n *node) {
	if n.attr.Nlink > 0 || n.opens > 0 {
		return
	}
	f.cut(n, 0)
	f.freeXattrs(n)
	f.used -= objectCost + int64(len(n.target))
	delete(f.nodes, n.attr.FileID)
}

var _ vfs.Identifier = (*FS)(nil)

// AppendKey appends the bytes of the handle: an object has only one
// (vfs.Identifier).
func (f *FS) AppendKey(b []byte, h vfs.Handle) ([]byte, error) {
	if h.Len() != handleLen {
		return b, vfs.ErrBadHandle
	}
	return h.AppendTo(b), nil
}
