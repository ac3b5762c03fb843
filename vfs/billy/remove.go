package billy

import (
	"context"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Remove removes the name of an object that is not a directory.
func (f *FS) Remove(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	return f.removeFrom(dir, name, func(o *object) error {
		if o.attr.Type == vfs.TypeDir {
			return syscall.EISDIR
		}
		return nil
	})
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	return f.removeFrom(dir, name, func(o *object) error {
		if o.attr.Type != vfs.TypeDir {
			return syscall.ENOTDIR
		}
		return f.checkEmpty(o)
	})
}

// checkEmpty returns ENOTEMPTY if a directory has entries. The check is needed
// because billy file systems return other errors for that, or remove the
// directory anyway.
func (f *FS) checkEmpty(o *object) error {
	list, err := f.fs.ReadDir(o.name)
	if err == nil && len(list) > 0 {
		return syscall.ENOTEMPTY
	}
	return f.errnoOf(err)
}

func (f *FS) removeFrom(dir vfs.Handle, name string, may func(o *object) error) (vfs.WCC, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := f.getDirectory(dir)
	if err != nil {
		return d.unchangedWCC(), err
	}
	w := d.unchangedWCC()
	if err := f.removeIn(&d, name, may); err != nil {
		return w, err
	}
	f.table.markChanged(d.n)
	w.After = f.attrAfterChange(&d)
	return w, nil
}

func (f *FS) removeIn(d *object, name string, may func(o *object) error) error {
	switch name {
	case ".":
		return syscall.EINVAL // RFC 1813, Section 3.3.13
	case "..":
		return syscall.EEXIST
	}
	if err := vfs.CheckName(name, maxName); err != nil {
		return err
	}
	o, err := f.childOf(d, name)
	if err != nil {
		return err
	}
	if err := may(&o); err != nil {
		return err
	}
	if f.readOnly {
		return syscall.EROFS
	}
	if err := f.fs.Remove(f.fs.Join(d.childPath(name)...)); err != nil {
		return f.errnoOf(err)
	}
	f.table.markChanged(o.n)
	f.table.unlinkPlace(o.n, place{d.n, name})
	return nil
}
