//go:build linux

package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// SetAttr changes size, owner, mode and times, in this order: writing and a new
// owner clear setuid bits, which mode may restore, and all of them change
// times. Changes made before an error stay.
func (f *FS) SetAttr(_ context.Context, c *vfs.Cred, h vfs.Handle, s vfs.SetAttr, guard *vfs.Time) (vfs.WCC, error) {
	o, err := f.object(h)
	if err != nil {
		return vfs.WCC{}, err
	}
	defer f.put(o)
	w, err := f.setAttr(o, c, &s, guard)
	if err == nil {
		err = f.sync(o)
	}
	return w, err
}

func (f *FS) setAttr(o *object, c *vfs.Cred, s *vfs.SetAttr, guard *vfs.Time) (w vfs.WCC, err error) {
	var st unix.Statx_t
	if err := f.beginChange(o, &st); err != nil {
		return w, err
	}
	defer f.endChange(o)
	w = f.unchanged(&st)
	if guard != nil && *guard != timeOf(st.Ctime) {
		return w, vfs.ErrNotSync
	}
	err = f.changeAll(o, c, *s)
	w.After = f.changed(o, &st, false)
	return w, err
}

func (f *FS) changeAll(o *object, c *vfs.Cred, s vfs.SetAttr) error {
	if s.Size != nil {
		if err := f.truncate(o, c, *s.Size); err != nil {
			return err
		}
		if s.AtimeHow == vfs.DontChange && s.MtimeHow == vfs.SetToServer {
			s.MtimeHow = vfs.DontChange // truncate has set mtime already, and needed no ownership
		}
	}
	var times error
	err := f.as(c, func() (err error) {
		if err = f.changeOwnerMode(o.fd, o.typ, &s); err == nil {
			times = changeTimes(o.fd, &s)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case times == unix.EPERM && isTouch(&s) && f.permitted(o, c, unix.W_OK) == nil:
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

// changeOwnerMode changes owner, then mode, of the O_PATH descriptor fd.
func (f *FS) changeOwnerMode(fd int, t vfs.Type, s *vfs.SetAttr) error {
	if s.UID != nil || s.GID != nil {
		if err := unix.Fchownat(fd, "", idOr(s.UID), idOr(s.GID), unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if s.Mode != nil && t != vfs.TypeLnk { // links have no mode, and knfsd returns no error
		return unix.Fchmodat(f.proc, magic(fd), *s.Mode&modeBits, 0)
	}
	return nil
}

func idOr(id *uint32) int {
	if id == nil {
		return -1 // leave it
	}
	return int(*id)
}

// changeTimes changes the times of the O_PATH descriptor fd.
func changeTimes(fd int, s *vfs.SetAttr) error {
	if s.AtimeHow == vfs.DontChange && s.MtimeHow == vfs.DontChange {
		return nil
	}
	atime, err := timespec(s.AtimeHow, s.Atime)
	if err != nil {
		return err
	}
	mtime, err := timespec(s.MtimeHow, s.Mtime)
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(fd, "", []unix.Timespec{atime, mtime}, unix.AT_EMPTY_PATH)
}

func timespec(how vfs.SetTime, t vfs.Time) (unix.Timespec, error) {
	switch how {
	case vfs.DontChange:
		return unix.Timespec{Nsec: unix.UTIME_OMIT}, nil
	case vfs.SetToServer:
		return unix.Timespec{Nsec: unix.UTIME_NOW}, nil
	}
	if t.Nsec >= 1e9 { // some of these numbers have a special meaning to the kernel
		return unix.Timespec{}, unix.EINVAL
	}
	return unix.Timespec{Sec: t.Sec, Nsec: int64(t.Nsec)}, nil
}

// truncateLocked takes o.wcc, calls truncate, and records the change.
func (f *FS) truncateLocked(o *object, c *vfs.Cred, size uint64) error {
	var st unix.Statx_t
	if err := f.beginChange(o, &st); err != nil {
		return err
	}
	defer f.endChange(o)
	err := f.truncate(o, c, size)
	f.changed(o, &st, err == nil)
	return err
}

// truncate sets the size of a file that c may write to. It changes mtime even
// if the size stays the same. o.wcc is held.
func (f *FS) truncate(o *object, c *vfs.Cred, size uint64) error {
	switch o.typ {
	case vfs.TypeReg:
	case vfs.TypeDir:
		return unix.EISDIR
	default:
		return unix.EINVAL
	}
	fl, err := f.open(o, c, accWrite)
	if err != nil {
		return err
	}
	defer f.closeFile(o, fl)
	var st unix.Statx_t
	if err := f.stat(o, &st); err != nil {
		return err
	}
	if err := f.recheck(o, fl, c, &st); err != nil {
		return err
	}
	return f.as(c, func() error { return f.ftruncate(fl.fd, size) })
}

func (f *FS) ftruncate(fd int, size uint64) error {
	if size > f.maxSize {
		return unix.EFBIG
	}
	_, err := retry(func() (int, error) { return 0, unix.Ftruncate(fd, int64(size)) })
	return err
}
