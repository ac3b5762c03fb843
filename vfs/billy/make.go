package billy

import (
	"context"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// makeObject creates an object in dir, and returns the directory's attributes before and after.
func (f *FS) makeObject(dir vfs.Handle, m *maker) (made vfs.Made, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := f.getDirectory(dir)
	if err != nil {
		return made, err
	}
	made.Dir = d.unchangedWCC()
	o, err := f.makeIn(&d, m)
	if err != nil {
		return made, err
	}
	made.Handle, made.Attr = o.n.handle, f.attrAfterChange(&o)
	made.Dir.After = f.attrAfterChange(&d)
	return made, nil
}

func (f *FS) makeIn(d *object, m *maker) (object, error) {
	if err := checkNewName(m.name); err != nil {
		return object{}, err
	}
	o, err := f.childOf(d, m.name)
	switch {
	case err == nil && m.acceptExisting != nil:
		return o, m.acceptExisting(&o)
	case err == nil:
		return o, syscall.EEXIST
	case err != syscall.ENOENT:
		return o, err
	case f.readOnly:
		return o, syscall.EROFS
	}
	if err := m.call(f.fs.Join(d.childPath(m.name)...)); err != nil {
		return o, f.errnoOf(err)
	}
	f.table.markChanged(d.n)
	if o, err = f.childOf(d, m.name); err != nil {
		return o, err
	}
	f.table.markChanged(o.n)
	o.n.exclusive, o.n.verifier = m.exclusive, m.verifier
	return o, f.finishObject(&o, m.attr)
}

// finishObject sets the attributes that could not be set when the object was created. Attributes
// that the file system does not support are dropped.
func (f *FS) finishObject(o *object, s vfs.SetAttr) error {
	if s.Mode != nil && *s.Mode == o.attr.Mode {
		s.Mode = nil
	}
	if s.Size != nil && *s.Size == o.attr.Size {
		s.Size = nil
	}
	if err := f.changeAll(o, s); err != syscall.EOPNOTSUPP {
		return err
	}
	return nil
}

// Link gives an object another name, if the FS has a Special.
func (f *FS) Link(_ context.Context, _ *vfs.Cred, h, dir vfs.Handle, name string) (vfs.MaybeAttr, vfs.WCC, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, err := f.getObject(h)
	if err != nil {
		return vfs.MaybeAttr{}, vfs.WCC{}, err
	}
	d, err := f.getDirectory(dir)
	w := d.unchangedWCC()
	if err == nil {
		err = f.linkIn(&o, &d, name)
	}
	if err != nil {
		return maybeAttrOf(&o.attr), w, err
	}
	f.table.markChanged(d.n)
	f.table.markChanged(o.n)
	w.After = f.attrAfterChange(&d)
	return f.attrAfterChange(&o), w, nil
}

func (f *FS) linkIn(o, d *object, name string) error {
	if err := checkNewName(name); err != nil {
		return err
	}
	_, err := f.childOf(d, name)
	switch {
	case err == nil:
		return syscall.EEXIST
	case err != syscall.ENOENT:
		return err
	case o.attr.Type == vfs.TypeDir:
		return syscall.EPERM
	case f.readOnly:
		return syscall.EROFS
	case f.special == nil:
		return syscall.EOPNOTSUPP
	}
	if err := f.special.Link(o.name, f.fs.Join(d.childPath(name)...)); err != nil {
		return f.errnoOf(err)
	}
	_, err = f.childOf(d, name) // so that both names share one node
	return err
}

// specialMaker returns the function that creates a special file, or an error for its type.
func (f *FS) specialMaker(t vfs.Type, d vfs.Dev, mode uint32) (func(path string) error, error) {
	switch t {
	case vfs.TypeFIFO, vfs.TypeSock, vfs.TypeChr, vfs.TypeBlk:
	default:
		return nil, vfs.ErrBadType
	}
	if f.special == nil {
		return failUnsupported, nil
	}
	return func(path string) error {
		switch t {
		case vfs.TypeFIFO:
			return f.special.Mkfifo(path, mode)
		case vfs.TypeSock:
			return f.special.Socket(path)
		case vfs.TypeChr:
			return f.special.Mknod(path, syscall.S_IFCHR|mode, d.Major, d.Minor)
		}
		return f.special.Mknod(path, syscall.S_IFBLK|mode, d.Major, d.Minor)
	}, nil
}
