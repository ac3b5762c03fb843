//go:build linux

package posix

import (
	"context"
	"math"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.Spacer = (*FS)(nil)

// A partUse is one operation's use of a vfs.Part.
type partUse struct {
	o     *object
	fl    *file
	cred  *vfs.Cred
	check bool // cred must have the right to
}

// usePart finds a part's file, and opens it as c unless it is open. endPart must follow.
func (f *FS) usePart(c *vfs.Cred, p *vfs.Part, acc access) (partUse, error) {
	if p.File == nil {
		o, fl, err := f.openData(c, p.Handle, acc)
		return partUse{o, fl, c, true}, err
	}
	w, ok := p.File.(*openFile)
	if !ok || w.f != f || w.acc != acc {
		return partUse{}, unix.EBADF
	}
	return partUse{w.o, w.fl, &w.cred, false}, nil
}

func (f *FS) endPart(u *partUse) {
	if u.check {
		f.endData(u.o, u.fl)
	}
}

// statAndCheck reads the attributes, and checks whether the caller has the right to the
// access.
func (u *partUse) statAndCheck(f *FS, st *unix.Statx_t) error {
	if err := f.statOrStale(u.o, st); err != nil {
		return err
	}
	return u.recheckAccess(f, st)
}

// recheckAccess is statAndCheck with the attributes st.
func (u *partUse) recheckAccess(f *FS, st *unix.Statx_t) error {
	if !u.check {
		return nil
	}
	return f.recheckAccess(u.o, u.fl, u.cred, st)
}

// changePart changes a part's file as its writer, by a function that reports whether it may have
// changed something. st is from before the change.
func (f *FS) changePart(u *partUse, change func(st *unix.Statx_t) (bool, error)) error {
	var st unix.Statx_t
	if err := f.beginChange(u.o, &st); err != nil {
		return err
	}
	defer f.endChange(u.o)
	if err := u.recheckAccess(f, &st); err != nil {
		return err
	}
	as, err := f.switchToWriter(u.cred, &st)
	if err != nil {
		return err
	}
	defer as.restore()
	changed, err := change(&st)
	if changed {
		f.attrAfterChange(u.o, &st, err == nil)
	}
	return err
}

// changeStably is changePart for a change that must be on stable storage.
func (f *FS) changeStably(u *partUse, change func(st *unix.Statx_t) error) error {
	failed := u.fl.Failed.Load()
	err := f.changePart(u, func(st *unix.Statx_t) (bool, error) { return true, change(st) })
	if err != nil || f.traits.volatile {
		return err
	}
	if err = hideTemporary(f.disk.SyncFile(&u.fl.File)); err == nil && u.fl.Failed.Load() != failed {
		err = unix.EIO // another sync through the file may have reported lost data
	}
	return err
}

// Allocate gives storage to a part of a file (vfs.Spacer). The file becomes longer only after the
// whole part has storage.
func (f *FS) Allocate(_ context.Context, c *vfs.Cred, p vfs.Part, n uint64) error {
	switch {
	case n == 0:
		return unix.EINVAL
	case p.Offset >= f.maxSize || n > f.maxSize-p.Offset:
		return unix.EFBIG
	}
	u, err := f.usePart(c, &p, accWrite)
	if err != nil {
		return err
	}
	defer f.endPart(&u)
	return f.changeStably(&u, func(st *unix.Statx_t) error {
		err := f.fallocate(u.fl.FD, unix.FALLOC_FL_KEEP_SIZE, int64(p.Offset), int64(n))
		if err == nil && p.Offset+n > st.Size {
			err = f.fallocate(u.fl.FD, 0, int64(p.Offset), int64(n))
		}
		return err
	})
}

// Deallocate punches a hole (vfs.Spacer).
func (f *FS) Deallocate(_ context.Context, c *vfs.Cred, p vfs.Part, n uint64) error {
	switch {
	case n == 0:
		return unix.EINVAL
	case p.Offset > math.MaxInt64:
		return unix.EFBIG
	}
	u, err := f.usePart(c, &p, accWrite)
	if err != nil {
		return err
	}
	defer f.endPart(&u)
	return f.changeStably(&u, func(st *unix.Statx_t) error {
		if p.Offset >= st.Size {
			return nil
		}
		return f.fallocate(u.fl.FD, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(p.Offset), int64(min(n, st.Size-p.Offset)))
	})
}

// hostFallocate is fallocate(2), again after each interruption.
func hostFallocate(fd int, mode uint32, off, n int64) error {
	_, err := retryEINTR(func() (int, error) { return 0, unix.Fallocate(fd, mode, off, n) })
	if err == unix.ENOSYS {
		err = unix.EOPNOTSUPP
	}
	return err
}

// Seek finds data or a hole (vfs.Spacer). A file system without holes has data
// up to the end.
func (f *FS) Seek(_ context.Context, c *vfs.Cred, p vfs.Part, hole bool) (off uint64, eof bool, err error) {
	u, err := f.usePart(c, &p, accRead)
	if err != nil {
		return 0, false, err
	}
	defer f.endPart(&u)
	var st unix.Statx_t
	if err := u.statAndCheck(f, &st); err != nil {
		return 0, false, err
	}
	if p.Offset >= st.Size {
		return 0, false, unix.ENXIO
	}
	whence := unix.SEEK_DATA
	if hole {
		whence = unix.SEEK_HOLE
	}
	at, err := unix.Seek(u.fl.FD, int64(p.Offset), whence)
	switch {
	case err == unix.ENXIO: // no data, or the file has become shorter
		return st.Size, true, nil
	case err == unix.EINVAL || err == unix.EOPNOTSUPP:
		if hole {
			return st.Size, true, nil
		}
		return p.Offset, false, nil
	case err != nil:
		return 0, false, err
	}
	return uint64(at), uint64(at) >= st.Size, nil
}

// advices are posix_fadvise(2)'s arguments.
var advices = map[vfs.Advice]int{
	vfs.AdviseNormal:     unix.FADV_NORMAL,
	vfs.AdviseSequential: unix.FADV_SEQUENTIAL,
	vfs.AdviseRandom:     unix.FADV_RANDOM,
	vfs.AdviseWillNeed:   unix.FADV_WILLNEED,
	vfs.AdviseDontNeed:   unix.FADV_DONTNEED,
	vfs.AdviseNoReuse:    unix.FADV_NOREUSE,
}

// Advise passes advice to the kernel (vfs.Spacer). Advice on order holds whenever the same caller
// uses the file, until its descriptor is closed.
func (f *FS) Advise(_ context.Context, c *vfs.Cred, p vfs.Part, n uint64, a vfs.Advice) error {
	how, ok := advices[a]
	if !ok || p.Offset > math.MaxInt64 {
		return unix.EINVAL
	}
	u, err := f.usePart(c, &p, accRead)
	if err != nil {
		return err
	}
	defer f.endPart(&u)
	var st unix.Statx_t
	if err := u.statAndCheck(f, &st); err != nil {
		return err
	}
	return unix.Fadvise(u.fl.FD, int64(p.Offset), int64(min(n, math.MaxInt64-p.Offset)), how)
}
