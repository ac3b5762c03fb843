package billy

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// An object is a node with its present path and attributes.
type object struct {
	n    *node
	path []string
	name string // path in the file system's form
	attr vfs.Attr
}

// getObject finds a handle's object. It returns ESTALE if the object was removed, or another object
// is in its place.
func (f *FS) getObject(h vfs.Handle) (object, error) {
	n := f.table.getNode(h)
	if n == nil {
		return f.resolveHandle(h)
	}
	return f.objectOf(n)
}

// objectOf returns a node's object, under its first name that is still valid.
func (f *FS) objectOf(n *node) (object, error) {
	for {
		path, ok := f.table.pathOf(n)
		if !ok {
			return object{}, syscall.ESTALE
		}
		o, err := f.statNode(n, path)
		if err == nil {
			return o, nil
		}
		if err != syscall.ENOENT && err != syscall.ENOTDIR {
			return object{}, err
		}
		if n == f.table.root {
			return object{}, syscall.ESTALE
		}
		f.table.dropFirstPlace(n)
	}
}

// statNode reads n's attributes at path. It returns ENOENT if n is not there.
func (f *FS) statNode(n *node, path []string) (object, error) {
	name := f.fs.Join(path...)
	fi, err := f.lstatPath(name)
	if err != nil {
		return object{}, err
	}
	if n != f.table.root && !n.isA(typeOf(fi.Mode()), f.infoOf(fi).FileID) {
		return object{}, syscall.ENOENT
	}
	return object{n: n, path: path, name: name, attr: f.attrOf(n, fi)}, nil
}

func (f *FS) lstatPath(name string) (os.FileInfo, error) {
	fi, err := f.fs.Lstat(name)
	return fi, f.errnoOf(err)
}

// getDirectory is like getObject, but h must be a directory.
func (f *FS) getDirectory(h vfs.Handle) (object, error) {
	o, err := f.getObject(h)
	if err == nil && o.attr.Type != vfs.TypeDir {
		err = syscall.ENOTDIR
	}
	return o, err
}

// attrAfterChange returns o's attributes after a change.
func (f *FS) attrAfterChange(o *object) vfs.MaybeAttr {
	now, err := f.statNode(o.n, o.path)
	if err != nil {
		return vfs.MaybeAttr{}
	}
	return maybeAttrOf(&now.attr)
}

// childPath returns a name's path in o.
func (o *object) childPath(name string) []string { return append(slices.Clip(o.path), name) }

// childOf finds the object named name in d. It returns ENOENT if there is none.
func (f *FS) childOf(d *object, name string) (object, error) {
	path := d.childPath(name)
	full := f.fs.Join(path...)
	if len(full) > maxPath {
		return object{}, syscall.ENAMETOOLONG
	}
	fi, err := f.lstatPath(full)
	if err != nil {
		return object{}, err
	}
	n, err := f.nodeOf(d, name, fi)
	if err != nil {
		return object{}, err
	}
	return object{n: n, path: path, name: full, attr: f.attrOf(n, fi)}, nil
}

// nodeOf returns the node for name in d. A hard-linked object shares the node known under another
// name.
func (f *FS) nodeOf(d *object, name string, fi os.FileInfo) (*node, error) {
	x := f.infoOf(fi)
	typ := typeOf(fi.Mode())
	if x.FileID != 0 && x.Nlink > 1 && typ != vfs.TypeDir {
		if n, path := f.table.nodeByFileID(x.FileID); n != nil && n.isA(typ, x.FileID) {
			if _, err := f.statNode(n, path); err == nil {
				f.table.linkNode(n, d.n, name)
				return n, nil
			}
		}
	}
	return f.table.childNode(d.n, name, typ, x.FileID)
}

// resolveHandle finds the object for a handle that is not in the table but known to Handles.
func (f *FS) resolveHandle(h vfs.Handle) (object, error) {
	path, err := f.table.handles.Path(h.AppendTo(nil))
	if err != nil {
		if !errors.Is(err, vfs.ErrBadHandle) {
			err = syscall.ESTALE
		}
		return object{}, err
	}
	o, err := f.objectOf(f.table.root)
	for _, name := range path {
		if err == nil && o.attr.Type != vfs.TypeDir {
			err = syscall.ENOTDIR
		}
		if err != nil {
			break
		}
		o, err = f.childOf(&o, name)
	}
	switch {
	case err == syscall.ENOENT, err == syscall.ENOTDIR:
		return object{}, syscall.ESTALE
	case err == nil && o.n.handle != h:
		return object{}, syscall.ESTALE // the path has a new handle
	}
	return o, err
}

var _ vfs.Identifier = (*FS)(nil)

// AppendKey appends the FS's random number and the inode number (vfs.Identifier). Without inode
// numbers, an object that has not been used for long would come back as a different one, so only
// the root has a key. Two FS on the same billy file system have no keys in common.
func (f *FS) AppendKey(b []byte, h vfs.Handle) ([]byte, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	n := f.table.getNode(h)
	if n == nil {
		o, err := f.resolveHandle(h)
		if err != nil {
			return b, err
		}
		n = o.n
	}
	if n.fileID == 0 && n != f.table.root {
		return b, syscall.EOPNOTSUPP
	}
	b = binary.BigEndian.AppendUint64(b, f.instance)
	return binary.BigEndian.AppendUint64(b, n.fileID), nil
}
