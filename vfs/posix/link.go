//go:build linux

package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Link gives an object another name.
func (f *FS) Link(ctx context.Context, c *vfs.Cred, h, dir vfs.Handle, name string) (obj vfs.MaybeAttr, dirWCC vfs.WCC, err error) {
	o, err := f.object(h)
	if err != nil {
		return obj, dirWCC, err
	}
	defer f.put(o)
	d, err := f.directory(dir)
	if err != nil {
		return f.attrOf(o), dirWCC, err
	}
	defer f.put(d)
	dirWCC, err = f.linkIn(ctx, c, o, d, name)
	if err == nil && o.typ == vfs.TypeReg {
		err = f.sync(o)
	}
	if err == nil {
		err = f.sync(d)
	}
	return f.attrOf(o), dirWCC, err
}

func (f *FS) linkIn(ctx context.Context, c *vfs.Cred, o, d *object, name string) (w vfs.WCC, err error) {
	defer lockBoth(o, d)()
	watched := f.expect(ctx, d, report{unix.IN_CREATE, name})
	defer watched.settle()
	var st, ost unix.Statx_t
	if err := f.stat(d, &st); err != nil {
		return w, err
	}
	if err := f.stat(o, &ost); err != nil {
		return w, err
	}
	defer f.announce(o, d)()
	w = f.unchanged(&st)
	if err := checkNewName(name); err != nil {
		return w, err
	}
	if err := f.handles.ready(); err != nil {
		return w, err
	}
	err = f.as(c, func() error {
		return unix.Linkat(f.proc, magic(o.fd), d.fd, name, unix.AT_SYMLINK_FOLLOW)
	})
	w.After = f.changed(d, &st, err == nil)
	if err != nil {
		return w, err
	}
	w.Atomic = watched.atomic(&w.After, nil)
	return w, late(f.linked(o, &ost, d, name))
}

// linked records the new name of an object that had the attributes before.
func (f *FS) linked(o *object, before *unix.Statx_t, d *object, name string) error {
	var st unix.Statx_t
	if err := f.statObject(o, &st); err != nil {
		return err
	}
	f.noteChange(before, &st, false)
	if _, err := f.handles.of(o.fd, &st, d.ino, []byte(name)); err != nil {
		return err
	}
	_ = f.handles.keep(st.Ino) // the name exists, and the object was known before
	return nil
}
