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

// object finds the object of a handle. It returns ESTALE if the object is gone,
// or another object is in its place.
func (f *FS) object(h vfs.Handle) (object, error) {
	n := f.table.get(h)
	if n == nil {
		return f.revive(h)
	}
	return f.at(n)
}

// at returns a node's object, under the first of its names that is still valid.
func (f *FS) at(n *node) (object, error) {
	for {
		path, ok := f.table.where(n)
		if !ok {
			return object{}, syscall.ESTALE
		}
		o, err := f.stat(n, path)
		if err == nil {
			return o, nil
		}
		if err != syscall.ENOENT && err != syscall.ENOTDIR {
			return object{}, err
		}
		if n == f.table.root {
			return object{}, syscall.ESTALE
		}
		f.table.lost(n)
	}
}

// stat reads the attributes of n at path. It returns ENOENT if n is not there.
func (f *FS) stat(n *node, path []string) (object, error) {
	name := f.fs.Join(path...)
	fi, err := f.lstat(name)
	if err != nil {
		return object{}, err
	}
	if n != f.table.root && !n.isA(typeOf(fi.Mode()), f.infoOf(fi).FileID) {
		return object{}, syscall.ENOENT
	}
	return object{n: n, path: path, name: name, attr: f.attrOf(n, fi)}, nil
}

func (f *FS) lstat(name string) (os.FileInfo, error) {
	fi, err := f.fs.Lstat(name)
	return fi, f.errnoOf(err)
}

// directory is like object, but h must be a directory.
func (f *FS) directory(h vfs.Handle) (object, error) {
	o, err := f.object(h)
	if err == nil && o.attr.Type != vfs.TypeDir {
		err = syscall.ENOTDIR
	}
	return o, err
}

// again returns the attributes of o after a change.
func (f *FS) again(o *object) vfs.MaybeAttr {
	now, err := f.stat(o.n, o.path)
	if err != nil {
		return vfs.MaybeAttr{}
	}
	return some(&now.attr)
}

// in returns the path of a name in o.
func (o *object) in(name string) []string { return append(slices.Clip(o.path), name) }

// child finds the object named name in d. It returns ENOENT if there is none.
func (f *FS) child(d *object, name string) (object, error) {
	path := d.in(name)
	full := f.fs.Join(path...)
	if len(full) > maxPath {
		return object{}, syscall.ENAMETOOLONG
	}
	fi, err := f.lstat(full)
	if err != nil {
		return object{}, err
	}
	n, err := f.nodeOf(d, name, fi)
	if err != nil {
		return object{}, err
	}
	return object{n: n, path: path, name: full, attr: f.attrOf(n, fi)}, nil
}

// nodeOf returns the node of the object named name in d. An object with several
// names shares the node known under another name.
func (f *FS) nodeOf(d *object, name string, fi os.FileInfo) (*node, error) {
	x := f.infoOf(fi)
	typ := typeOf(fi.Mode())
	if x.FileID != 0 && x.Nlink > 1 && typ != vfs.TypeDir {
		if n, path := f.table.same(x.FileID); n != nil && n.isA(typ, x.FileID) {
			if _, err := f.stat(n, path); err == nil {
				f.table.link(n, d.n, name)
				return n, nil
			}
		}
	}
	return f.table.child(d.n, name, typ, x.FileID)
}

// revive finds the object of a handle that is not in the table but known to
// Handles.
func (f *FS) revive(h vfs.Handle) (object, error) {
	path, err := f.table.handles.Path(h.AppendTo(nil))
	if err != nil {
		if !errors.Is(err, vfs.ErrBadHandle) {
			err = syscall.ESTALE
		}
		return object{}, err
	}
	o, err := f.at(f.table.root)
	for _, name := range path {
		if err == nil && o.attr.Type != vfs.TypeDir {
			err = syscall.ENOTDIR
		}
		if err != nil {
			break
		}
		o, err = f.child(&o, name)
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

// AppendKey appends a random number of the FS and the inode number
// (vfs.Identifier). Without inode numbers, an object that has not been used for
// long would come back as a different one, so only the root has a key. Two FS
// of the same billy file system have no keys in common.
func (f *FS) AppendKey(b []byte, h vfs.Handle) ([]byte, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	n := f.table.get(h)
	if n == nil {
		o, err := f.revive(h)
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
