//go:build linux

package posix

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/handletable"
)

// Rename renames an object. It does nothing if both names belong to the same
// object, like the kernel.
func (f *FS) Rename(ctx context.Context, c *vfs.Cred, from vfs.Handle, fromName string, to vfs.Handle, toName string) (fromDir, toDir vfs.WCC, err error) {
	d, err := f.getDirectory(from)
	if err != nil {
		return fromDir, toDir, err
	}
	defer f.putObject(d)
	e, err := f.getDirectory(to)
	if err != nil {
		fromDir.After = f.attrOf(d)
		return fromDir, toDir, err
	}
	defer f.putObject(e)
	old, replaced := noNamedObject, noNamedObject
	defer f.closeNamed(&old)
	defer f.closeNamed(&replaced)
	fromDir, toDir, err = f.renameIn(ctx, c, d, fromName, e, toName, &old, &replaced)
	if err != nil {
		return fromDir, toDir, err
	}
	err = f.syncObject(e)
	if d != e {
		err = errors.Join(err, f.syncObject(d))
	}
	return fromDir, toDir, err
}

// renameIn stores the renamed object in old, and the object that had the new
// name before in replaced.
func (f *FS) renameIn(ctx context.Context, c *vfs.Cred, d *object, from string, e *object, to string, old, replaced *namedObject) (wd, we vfs.WCC, err error) {
	defer lockBoth(d, e)()
	left, came := f.expectRename(ctx, d, from, e, to)
	defer left.settleReports()
	defer came.settleReports()
	var dst, est unix.Statx_t
	if err := f.statOrStale(d, &dst); err != nil {
		return wd, we, err
	}
	wd = f.unchangedWCC(&dst)
	if err := f.statOrStale(e, &est); err != nil {
		return wd, we, err
	}
	defer f.beginChanges(d, e)()
	we = f.unchangedWCC(&est)
	if err := errors.Join(checkName(from), checkName(to)); err != nil {
		return wd, we, err
	}
	if isDots(from) || isDots(to) {
		return wd, we, unix.EINVAL
	}
	err = f.renameName(c, d, from, e, to, old, replaced)
	if err == nil && f.sameNamed(old, replaced) {
		wd.Atomic, we.Atomic = true, true // nothing has changed
		return wd, we, nil
	}
	wd.After = f.attrAfterChange(d, &dst, false)
	if we.After = wd.After; e != d {
		we.After = f.attrAfterChange(e, &est, false)
	}
	if err != nil {
		return wd, we, err
	}
	same := func() bool { return f.stillNames(e, to, old) }
	if e == d {
		wd.Atomic = left.isAtomic(&wd.After, same)
		we.Atomic = wd.Atomic
		return wd, we, nil
	}
	wd.Atomic = left.isAtomic(&wd.After, nil)
	we.Atomic = came.isAtomic(&we.After, func() bool { return left != nil && left.cookie == came.cookie && same() })
	return wd, we, nil
}

// renameName moves a name. The handle table records the new name first, because a
// daemon that dies in between must find the object under either name. Both
// names stay if they were hard links to the object.
func (f *FS) renameName(c *vfs.Cred, d *object, from string, e *object, to string, old, replaced *namedObject) error {
	looked := attrs.currentTime()
	err := f.runAs(c, func() (err error) {
		if *old, err = f.lookUpNamed(d, from); err == nil {
			*replaced, err = f.lookUpNamed(e, to)
		}
		return err
	})
	if err != nil {
		return err
	}
	next := handletable.Place{Dir: e.ino, Name: to}
	moves := old.fd >= 0 && old.Place != next
	if moves {
		err = f.handles.beginMove(old.fd, &old.st, old.Place, next)
	}
	if err == nil {
		f.beginNamed(old)
		f.beginNamed(replaced)
		err = f.runAs(c, func() error { return unix.Renameat(d.fd, from, e.fd, to) })
		f.endNamed(old)
		f.endNamed(replaced)
		f.checkNamed(d, e, looked)
	}
	left := false
	if moves {
		not, in := old.Place, d
		if err != nil {
			not, in = next, e
		}
		if left = !f.mayBe(&old.st, in, not.Name); left {
			f.handles.endMove(old.fd, &old.st, old.Place, not)
		}
	}
	if err == nil && (replaced.st.Ino != old.st.Ino || left && !f.traits.links) {
		err = hideTemporary(f.recordRemoval(replaced))
	}
	return err
}

// sameNamed reports whether two names belong to one object for good: renaming one to the other does
// nothing.
func (f *FS) sameNamed(a, b *namedObject) bool {
	return a.st.Ino != 0 && inodeOf(&a.st) == inodeOf(&b.st) && (f.traits.links || a.Place == b.Place)
}

// mayBe reports whether name in d may lead to the object with attributes st.
func (f *FS) mayBe(st *unix.Statx_t, d *object, name string) bool {
	var now unix.Statx_t
	switch statName(d.fd, append([]byte(name), 0), &now) {
	case nil:
		return now.Ino == st.Ino && f.isExported(&now)
	case unix.ENOENT:
		return false
	}
	return true // a wrong name in the table does no harm
}
