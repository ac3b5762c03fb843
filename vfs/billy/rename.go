package billy

import (
	"context"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Rename moves a name. It replaces an existing object under the rules of
// rename(2), because billy file systems differ in their rules.
func (f *FS) Rename(_ context.Context, _ *vfs.Cred, from vfs.Handle, fromName string, to vfs.Handle, toName string) (fromDir, toDir vfs.WCC, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fd, err := f.getDirectory(from)
	fromDir = fd.unchangedWCC()
	if err != nil {
		return fromDir, toDir, err
	}
	td, err := f.getDirectory(to)
	toDir = td.unchangedWCC()
	if err == nil {
		err = f.renameObject(&fd, fromName, &td, toName)
	}
	if err == nil {
		fromDir.After, toDir.After = f.attrAfterChange(&fd), f.attrAfterChange(&td)
	}
	return fromDir, toDir, err
}

func (f *FS) renameObject(fd *object, fromName string, td *object, toName string) error {
	for _, name := range []string{fromName, toName} {
		if vfs.IsDots(name) {
			return syscall.EINVAL // RFC 1813, Section 3.3.14
		}
		if err := vfs.CheckName(name, maxName); err != nil {
			return err
		}
	}
	o, err := f.childOf(fd, fromName)
	if err != nil {
		return err
	}
	if f.table.isBelow(td.n, o.n) {
		return syscall.EINVAL // a directory into itself
	}
	there, err := f.childOf(td, toName)
	switch {
	case err == nil && there.n == o.n:
		return nil // two names for one object, or one
	case err == nil:
		err = f.checkReplace(&o, &there)
	case err == syscall.ENOENT:
		err = nil
	}
	if err == nil && f.readOnly {
		err = syscall.EROFS
	}
	if err != nil {
		return err
	}
	if err := f.renamePath(f.fs.Join(fd.childPath(fromName)...), f.fs.Join(td.childPath(toName)...), &there); err != nil {
		return err
	}
	f.table.moveNode(place{fd.n, fromName}, place{td.n, toName})
	for _, n := range []*node{fd.n, td.n, o.n} {
		f.table.markChanged(n)
	}
	return nil
}

// renamePath renames from to to. If package os does not replace an existing empty
// directory, renamePath removes it first.
func (f *FS) renamePath(from, to string, there *object) error {
	err := f.errnoOf(f.fs.Rename(from, to))
	if err != syscall.EEXIST || there.n == nil || there.attr.Type != vfs.TypeDir {
		return err
	}
	if err := f.fs.Remove(to); err != nil {
		return f.errnoOf(err)
	}
	return f.errnoOf(f.fs.Rename(from, to))
}

// checkReplace returns an error if o may not replace there.
func (f *FS) checkReplace(o, there *object) error {
	dir, overDir := o.attr.Type == vfs.TypeDir, there.attr.Type == vfs.TypeDir
	switch {
	case dir && !overDir:
		return syscall.ENOTDIR
	case !dir && overDir:
		return syscall.EISDIR
	case dir:
		return f.checkEmpty(there)
	}
	return nil
}
