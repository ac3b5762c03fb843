//go:build linux

package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/handletable"
)

// Link gives an object another name.
func (f *FS) Link(ctx context.Context, c *vfs.Cred, h, dir vfs.Handle, name string) (obj vfs.MaybeAttr, dirWCC vfs.WCC, err error) {
	o, err := f.getObject(h)
	if err != nil {
		return obj, dirWCC, err
	}
	defer f.putObject(o)
	d, err := f.getDirectory(dir)
	if err != nil {
		return f.attrOf(o), dirWCC, err
	}
	defer f.putObject(d)
	dirWCC, err = f.linkIn(ctx, c, o, d, name)
	if err == nil && o.typ == vfs.TypeReg {
		err = f.syncObject(o)
	}
	if err == nil {
		err = f.syncObject(d)
	}
	return f.attrOf(o), dirWCC, err
}

func (f *FS) linkIn(ctx context.Context, c *vfs.Cred, o, d *object, name string) (w vfs.WCC, err error) {
	defer lockBoth(o, d)()
	watched := f.expectReports(ctx, d, nameReport{unix.IN_CREATE, name})
	defer watched.settleReports()
	var st, ost unix.Statx_t
	if err := f.statOrStale(d, &st); err != nil {
		return w, err
	}
	if err := f.statOrStale(o, &ost); err != nil {
		return w, err
	}
	defer f.beginChanges(o, d)()
	w = f.unchangedWCC(&st)
	if err := checkNewName(name); err != nil {
		return w, err
	}
	if err := f.handles.persistAll(); err != nil {
		return w, err
	}
	err = f.runAs(c, func() error {
		return unix.Linkat(f.proc, magicName(o.fd), d.fd, name, unix.AT_SYMLINK_FOLLOW)
	})
	w.After = f.attrAfterChange(d, &st, err == nil)
	switch err {
	case nil:
	case unix.ENOENT: // the object, or the directory, has lost its last name
		return w, unix.ESTALE
	default:
		return w, err
	}
	w.Atomic = watched.isAtomic(&w.After, nil)
	return w, hideTemporary(f.recordLink(o, &ost, d, name))
}

// recordLink records an object's new name; before are its earlier attributes.
func (f *FS) recordLink(o *object, before *unix.Statx_t, d *object, name string) error {
	var st unix.Statx_t
	if err := f.statObject(o, &st); err != nil {
		return err
	}
	f.noteChange(before, &st, false)
	f.noteCopyUp(o, &st)
	h, err := f.handles.handleOfLink(o.h, o.fd, &st, handletable.Place{Dir: d.ino, Name: name})
	if err != nil {
		return err
	}
	_ = f.handles.persist(h) // the name exists, and the object was known before
	return nil
}
