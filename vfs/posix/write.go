//go:build linux

package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Write writes p. Even with an error, n bytes of p were written, as stably as
// requested.
func (f *FS) Write(_ context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (n int, done vfs.Stable, w vfs.WCC, err error) {
	o, fl, err := f.openData(c, h, accWrite)
	if err != nil {
		w.After = f.attrOfHandle(h)
		return 0, how, w, err
	}
	defer f.endData(o, fl)
	return f.writeStable(o, fl, c, true, p, off, how)
}

// writeStable writes to fl as c, who must have the right to if it is to be
// checked.
func (f *FS) writeStable(o *object, fl *file, c *vfs.Cred, check bool, p []byte, off uint64, how vfs.Stable) (
	n int, done vfs.Stable, w vfs.WCC, err error,
) {
	failed := fl.Failed.Load()
	n, w, err = f.writeFile(o, fl, c, check, p, off)
	if n > 0 {
		serr := f.makeStable(fl, how)
		if serr == nil && how != vfs.Unstable && fl.Failed.Load() != failed {
			serr = unix.EIO // another sync through fl may have reported lost data
		}
		if serr != nil {
			return 0, how, w, serr
		}
	}
	return n, how, w, err
}

// writeFile writes to the page cache, and returns the attributes before and after.
func (f *FS) writeFile(o *object, fl *file, c *vfs.Cred, check bool, p []byte, off uint64) (n int, w vfs.WCC, err error) {
	var st unix.Statx_t
	if err := f.beginChange(o, &st); err != nil {
		return 0, w, err
	}
	defer f.endChange(o)
	w = f.unchangedWCC(&st)
	if check {
		if err := f.recheckAccess(o, fl, c, &st); err != nil {
			return 0, w, err
		}
	}
	if len(p) == 0 {
		return 0, w, nil
	}
	if off >= f.maxSize || uint64(len(p)) > f.maxSize-off {
		return 0, w, unix.EFBIG
	}
	as, err := f.switchToWriter(c, &st)
	if err != nil {
		return 0, w, err
	}
	defer as.restore()
	if n, err = writeAll(fl.FD, p, int64(off)); n > 0 {
		f.disk.MarkDirty(&fl.File)
	}
	w.After = f.attrAfterChange(o, &st, n > 0)
	return n, w, err
}

// switchToWriter switches to c's identity, so that the kernel clears setuid bits
// as c writes, and enforces quotas. The groups matter in only one case: a
// set-group-ID bit without group execution stays if the writer is in the group.
func (f *FS) switchToWriter(c *vfs.Cred, st *unix.Statx_t) (identitySwitch, error) {
	if st.Mode&(unix.S_ISGID|unix.S_IXGRP) == unix.S_ISGID {
		return f.switchTo(c)
	}
	return f.switchUID(c.UID)
}

// writeAll writes p completely.
func writeAll(fd int, p []byte, off int64) (n int, err error) {
	for n < len(p) {
		m, err := unix.Pwrite(fd, p[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, err
		case m == 0:
			return n, unix.EIO
		default:
			n += m
		}
	}
	return n, nil
}

// makeStable puts the written data on stable storage as requested. After a
// failure the kernel treats the data as clean, so the client must write again.
func (f *FS) makeStable(fl *file, how vfs.Stable) error {
	switch how {
	case vfs.Unstable:
		return nil
	case vfs.DataSync:
		return f.disk.SyncData(&fl.File)
	}
	return f.disk.SyncFile(&fl.File)
}

// Commit puts the whole file on stable storage, for any range, with all writers' data. It changes
// no attributes.
func (f *FS) Commit(_ context.Context, c *vfs.Cred, h vfs.Handle, _ uint64, _ uint32) (w vfs.WCC, err error) {
	o, fl, err := f.openData(c, h, accWrite)
	if err != nil {
		w.After = f.attrOfHandle(h)
		return w, err
	}
	defer f.endData(o, fl)
	var st unix.Statx_t
	if err := f.statOrStale(o, &st); err != nil {
		return w, err
	}
	if err := f.recheckAccess(o, fl, c, &st); err != nil {
		return f.unchangedWCC(&st), err
	}
	err = f.disk.SyncInode(&fl.File)
	if serr := f.statOrStale(o, &st); serr != nil {
		return w, serr
	}
	return f.unchangedWCC(&st), err
}
