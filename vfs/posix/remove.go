//go:build linux

package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Remove removes an object that is not a directory.
func (f *FS) Remove(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	if isDots(name) {
		return vfs.WCC{}, unix.EACCES
	}
	return f.unlinkName(ctx, c, dir, name, 0)
}

// Rmdir removes a directory. Its errors for "." and ".." follow RFC 1813, Section 3.3.13.
func (f *FS) Rmdir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	switch name {
	case ".":
		return vfs.WCC{}, unix.EINVAL
	case "..":
		return vfs.WCC{}, unix.EEXIST
	}
	return f.unlinkName(ctx, c, dir, name, unix.AT_REMOVEDIR)
}

func (f *FS) unlinkName(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, flags int) (w vfs.WCC, err error) {
	d, err := f.getDirectory(dir)
	if err != nil {
		return w, err
	}
	defer f.putObject(d)
	v := noNamedObject
	defer f.closeNamed(&v)
	w, err = f.unlinkIn(ctx, c, d, name, flags, &v)
	if err == nil {
		err = f.syncObject(d)
	}
	return w, err
}

// unlinkIn stores the object that lost the name in v.
func (f *FS) unlinkIn(ctx context.Context, c *vfs.Cred, d *object, name string, flags int, v *namedObject) (w vfs.WCC, err error) {
	var st unix.Statx_t
	watched, err := f.beginNames(ctx, d, &st, nameReport{unix.IN_DELETE, name})
	if err != nil {
		return w, err
	}
	defer f.endNames(d, watched)
	w = f.unchangedWCC(&st)
	if err := checkName(name); err != nil {
		return w, err
	}
	err = f.runAs(c, func() (err error) {
		looked := attrs.currentTime()
		if *v, err = f.lookUpNamed(d, name); err == nil {
			f.beginNamed(v)
			err = unix.Unlinkat(d.fd, name, flags)
			f.endNamed(v)
			f.checkNamed(d, d, looked)
		}
		return err
	})
	w.After = f.attrAfterChange(d, &st, err == nil)
	if err != nil {
		return w, err
	}
	w.Atomic = watched.isAtomic(&w.After, nil)
	return w, hideTemporary(f.recordRemoval(v))
}
