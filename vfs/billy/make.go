package billy

import (
	"context"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// make makes an object in dir, and returns the attributes of the directory
// before and after.
func (f *FS) make(dir vfs.Handle, m *maker) (made vfs.Made, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := f.directory(dir)
	if err != nil {
		return made, err
	}
	made.Dir = d.unchanged()
	o, err := f.makeIn(&d, m)
	if err != nil {
		return made, err
	}
	made.Handle, made.Attr = o.n.handle, f.again(&o)
	made.Dir.After = f.again(&d)
	return made, nil
}

func (f *FS) makeIn(d *object, m *maker) (object, error) {
	if err := checkNewName(m.name); err != nil {
		return object{}, err
	}
	o, err := f.child(d, m.name)
	switch {
	case err == nil && m.taken != nil:
		return o, m.taken(&o)
	case err == nil:
		return o, syscall.EEXIST
	case err != syscall.ENOENT:
		return o, err
	case f.readOnly:
		return o, syscall.EROFS
	}
	if err := m.call(f.fs.Join(d.in(m.name)...)); err != nil {
		return o, f.errnoOf(err)
	}
	f.table.touch(d.n)
	if o, err = f.child(d, m.name); err != nil {
		return o, err
	}
	f.table.touch(o.n)
	o.n.exclusive, o.n.verifier = m.exclusive, m.verifier
	return o, f.finish(&o, m.attr)
}

// finish sets the attributes that the call which made the object could not set.
// An object goes without attributes that the file system does not support.
func (f *FS) finish(o *object, s vfs.SetAttr) error {
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
	o, err := f.object(h)
	if err != nil {
		return vfs.MaybeAttr{}, vfs.WCC{}, err
	}
	d, err := f.directory(dir)
	w := d.unchanged()
	if err == nil {
		err = f.linkIn(&o, &d, name)
	}
	if err != nil {
		return some(&o.attr), w, err
	}
	f.table.touch(d.n)
	f.table.touch(o.n)
	w.After = f.again(&d)
	return f.again(&o), w, nil
}

func (f *FS) linkIn(o, d *object, name string) error {
	if err := checkNewName(name); err != nil {
		return err
	}
	_, err := f.child(d, name)
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
	if err := f.special.Link(o.name, f.fs.Join(d.in(name)...)); err != nil {
		return f.errnoOf(err)
	}
	_, err = f.child(d, name) // so that both names share one node
	return err
}

// specialMaker returns the function that makes a special file, or an error for
// its type.
func (f *FS) specialMaker(t vfs.Type, d vfs.Dev, mode uint32) (func(path string) error, error) {
	switch t {
	case vfs.TypeFIFO, vfs.TypeSock, vfs.TypeChr, vfs.TypeBlk:
	default:
		return nil, vfs.ErrBadType
	}
	if f.special == nil {
		return unsupported, nil
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
