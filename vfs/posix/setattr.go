//go:build linux

package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// SetAttr changes size, owner, mode and times, in this order: writing and a new owner clear setuid
// bits, which mode may restore, and all change times. Changes made before an error stay.
func (f *FS) SetAttr(_ context.Context, c *vfs.Cred, h vfs.Handle, s vfs.SetAttr, guard *vfs.Time) (vfs.WCC, error) {
	o, err := f.getObject(h)
	if err != nil {
		return vfs.WCC{}, err
	}
	defer f.putObject(o)
	w, err := f.setAttr(o, c, &s, guard)
	if err == nil {
		err = f.syncObject(o)
	}
	return w, err
}

func (f *FS) setAttr(o *object, c *vfs.Cred, s *vfs.SetAttr, guard *vfs.Time) (w vfs.WCC, err error) {
	var st unix.Statx_t
	if err := f.beginChange(o, &st); err != nil {
		return w, err
	}
	defer f.endChange(o)
	w = f.unchangedWCC(&st)
	if guard != nil && *guard != timeOf(st.Ctime) {
		return w, vfs.ErrNotSync
	}
	err = f.changeAll(o, c, *s)
	w.After = f.attrAfterChange(o, &st, false)
	return w, err
}

func (f *FS) changeAll(o *object, c *vfs.Cred, s vfs.SetAttr) error {
	if s.Size != nil {
		if err := f.truncateFile(o, c, *s.Size); err != nil {
			return err
		}
		if s.AtimeHow == vfs.DontChange && s.MtimeHow == vfs.SetToServer {
			s.MtimeHow = vfs.DontChange // truncateFile has set mtime already, and needed no ownership
		}
	}
	var times error
	err := f.runAs(c, func() (err error) {
		if err = f.changeOwnerMode(o.fd, o.typ, &s); err == nil {
			times = changeTimes(o.fd, &s)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case times == unix.EPERM && isTouch(&s) && f.checkPermission(o, c, unix.W_OK) == nil:
		// Linux lets writers set both times to now, but not just one of the
		// two.
		return changeTimes(o.fd, &s)
	}
	return times
}

// isTouch reports whether s sets times to the server's time only.
func isTouch(s *vfs.SetAttr) bool {
	return s.AtimeHow != vfs.SetToClient && s.MtimeHow != vfs.SetToClient
}

// changeOwnerMode changes owner, then mode, through the O_PATH descriptor fd.
func (f *FS) changeOwnerMode(fd int, t vfs.Type, s *vfs.SetAttr) error {
	if s.UID != nil || s.GID != nil {
		if err := unix.Fchownat(fd, "", idOr(s.UID), idOr(s.GID), unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if s.Mode != nil && t != vfs.TypeLnk { // links have no mode, and knfsd returns no error
		return unix.Fchmodat(f.proc, magicName(fd), *s.Mode&modeBits, 0)
	}
	return nil
}

func idOr(id *uint32) int {
	if id == nil {
		return -1 // leave it
	}
	return int(*id)
}

// changeTimes changes the times through the O_PATH descriptor fd.
func changeTimes(fd int, s *vfs.SetAttr) error {
	if s.AtimeHow == vfs.DontChange && s.MtimeHow == vfs.DontChange {
		return nil
	}
	atime, err := timespecOf(s.AtimeHow, s.Atime)
	if err != nil {
		return err
	}
	mtime, err := timespecOf(s.MtimeHow, s.Mtime)
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(fd, "", []unix.Timespec{atime, mtime}, unix.AT_EMPTY_PATH)
}

func timespecOf(how vfs.SetTime, t vfs.Time) (unix.Timespec, error) {
	switch how {
	case vfs.DontChange:
		return unix.Timespec{Nsec: unix.UTIME_OMIT}, nil
	case vfs.SetToServer:
		return unix.Timespec{Nsec: unix.UTIME_NOW}, nil
	}
	if t.Nsec >= 1e9 { // some larger numbers have a special meaning to the kernel
		return unix.Timespec{}, unix.EINVAL
	}
	return unix.Timespec{Sec: t.Sec, Nsec: int64(t.Nsec)}, nil
}

// truncateLocked locks o.wcc, calls truncateFile, and records the change.
func (f *FS) truncateLocked(o *object, c *vfs.Cred, size uint64) error {
	var st unix.Statx_t
	if err := f.beginChange(o, &st); err != nil {
		return err
	}
	defer f.endChange(o)
	err := f.truncateFile(o, c, size)
	f.attrAfterChange(o, &st, err == nil)
	return err
}

// truncateFile sets the size if c may write. It changes mtime even if the size stays the same.
// o.wcc is held.
func (f *FS) truncateFile(o *object, c *vfs.Cred, size uint64) error {
	switch o.typ {
	case vfs.TypeReg:
	case vfs.TypeDir:
		return unix.EISDIR
	default:
		return unix.EINVAL
	}
	fl, err := f.openAs(o, c, accWrite)
	if err != nil {
		return err
	}
	defer f.closeFile(o, fl)
	var st unix.Statx_t
	if err := f.statOrStale(o, &st); err != nil {
		return err
	}
	if err := f.recheckAccess(o, fl, c, &st); err != nil {
		return err
	}
	return f.runAs(c, func() error { return f.truncateFD(fl.FD, size) })
}

func (f *FS) truncateFD(fd int, size uint64) error {
	if size > f.maxSize {
		return unix.EFBIG
	}
	_, err := retryEINTR(func() (int, error) { return 0, unix.Ftruncate(fd, int64(size)) })
	return err
}
