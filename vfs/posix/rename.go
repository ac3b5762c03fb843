//go:build linux

package posix

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Rename renames an object. It does nothing if both names belong to the same
// object, like the kernel.
func (f *FS) Rename(ctx context.Context, c *vfs.Cred, from vfs.Handle, fromName string, to vfs.Handle, toName string) (fromDir, toDir vfs.WCC, err error) {
	d, err := f.directory(from)
	if err != nil {
		return fromDir, toDir, err
	}
	defer f.put(d)
	e, err := f.directory(to)
	if err != nil {
		fromDir.After = f.attrOf(d)
		return fromDir, toDir, err
	}
	defer f.put(e)
	old, over := noNamed, noNamed
	defer f.closeNamed(&old)
	defer f.closeNamed(&over)
	fromDir, toDir, err = f.renameIn(ctx, c, d, fromName, e, toName, &old, &over)
	if err != nil {
		return fromDir, toDir, err
	}
	err = f.sync(e)
	if d != e {
		err = errors.Join(err, f.sync(d))
	}
	return fromDir, toDir, err
}

// renameIn stores the renamed object in old, and the object that had the new
// name before in over.
func (f *FS) renameIn(ctx context.Context, c *vfs.Cred, d *object, from string, e *object, to string, old, over *named) (wd, we vfs.WCC, err error) {
	defer lockBoth(d, e)()
	left, came := f.expectRename(ctx, d, from, e, to)
	defer left.settle()
	defer came.settle()
	var dst, est unix.Statx_t
	if err := f.stat(d, &dst); err != nil {
		return wd, we, err
	}
	wd = f.unchanged(&dst)
	if err := f.stat(e, &est); err != nil {
		return wd, we, err
	}
	defer f.announce(d, e)()
	we = f.unchanged(&est)
	if err := errors.Join(checkName(from), checkName(to)); err != nil {
		return wd, we, err
	}
	if isDots(from) || isDots(to) {
		return wd, we, unix.EINVAL
	}
	err = f.rename(c, d, from, e, to, old, over)
	wd.After = f.changed(d, &dst, false)
	if we.After = wd.After; e != d {
		we.After = f.changed(e, &est, false)
	}
	if err != nil {
		return wd, we, err
	}
	same := func() bool { return f.stillNames(e, to, old) }
	if e == d {
		wd.Atomic = left.atomic(&wd.After, same)
		we.Atomic = wd.Atomic
		return wd, we, nil
	}
	wd.Atomic = left.atomic(&wd.After, nil)
	we.Atomic = came.atomic(&we.After, func() bool { return left != nil && left.cookie == came.cookie && same() })
	return wd, we, nil
}

// rename moves a name. The handle table records the new name first, because a
// daemon that dies in between must find the object under either name. Both
// names stay if they were hard links to the object.
func (f *FS) rename(c *vfs.Cred, d *object, from string, e *object, to string, old, over *named) error {
	looked := attrs.now()
	err := f.as(c, func() (err error) {
		if *old, err = f.named(d, from); err == nil {
			*over, err = f.named(e, to)
		}
		return err
	})
	if err != nil {
		return err
	}
	next := place{e.ino, to}
	moves := old.fd >= 0 && old.place != next
	if moves {
		err = f.handles.moving(old.fd, &old.st, next)
	}
	if err == nil {
		f.beginNamed(old)
		f.beginNamed(over)
		err = f.as(c, func() error { return unix.Renameat(d.fd, from, e.fd, to) })
		f.endNamed(old)
		f.endNamed(over)
		f.checkNamed(d, e, looked)
	}
	if moves {
		not, in := old.place, d
		if err != nil {
			not, in = next, e
		}
		if !f.mayBe(&old.st, in, not.name) {
			f.handles.moved(old.fd, &old.st, not)
		}
	}
	if err == nil && over.st.Ino != old.st.Ino {
		err = late(f.unnamed(over))
	}
	return err
}

// mayBe reports whether name in d may lead to the object with attributes st.
func (f *FS) mayBe(st *unix.Statx_t, d *object, name string) bool {
	var now unix.Statx_t
	switch statName(d.fd, append([]byte(name), 0), &now) {
	case nil:
		return now.Ino == st.Ino && f.exported(&now)
	case unix.ENOENT:
		return false
	}
	return true // a wrong name in the table does no harm
}
