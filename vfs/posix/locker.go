//go:build linux

package posix

import (
	"context"
	"math"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

var _ vfs.Locker = (*FS)(nil)

// fileLocks are the locks of one open file description (fcntl(2), F_OFD_SETLK). A read-only
// description can have shared locks only. One for writing prevents leases, and executing the file
// on the host: fileLocks changes to such a description for an exclusive lock, and back when no
// exclusive lock remains.
type fileLocks struct {
	f *FS
	o *object
	lockDescription

	held   locks.Object
	owner  *locks.Owner // the owner in held
	part   *locks.Part
	client netip.Addr // the client that locked the file first
	counts bool       // an own descriptor is counted
	share  sharePlace // its place
}

// OpenLocks opens a regular file with the daemon's own rights (vfs.Locker). Locked files that have
// a descriptor of their own may take a quarter of the descriptors that the cache may have: Files,
// which may take half, must not keep clients from locking. Such a file counts against the share of
// the client that locked it first.
func (f *FS) OpenLocks(ctx context.Context, h vfs.Handle) (vfs.FileLocks, error) {
	o, err := f.getObject(h)
	if err != nil {
		return nil, err
	}
	defer f.putObject(o)
	if o.typ != vfs.TypeReg {
		return nil, unix.EINVAL
	}
	l := &fileLocks{f: f, o: o, lockDescription: lockDescription{fd: -1}, client: vfs.ClientOf(ctx)}
	if l.lockDescription, err = l.openDescription(accRead); err != nil {
		return nil, f.lockError(err, false)
	}
	l.owner = l.held.NewOwner(nil)
	l.part = l.owner.NewPart()
	return l, nil
}

// SetLock implements vfs.FileLocks. Bytes beyond the host's maximum offset cannot be locked there.
func (l *fileLocks) SetLock(r locks.Range, kind locks.Kind) (bool, error) {
	if r.Start > maxFileSize {
		return true, nil
	}
	r.End = min(r.End, maxFileSize)
	if l.hasLock(r, kind) {
		return true, nil
	}
	if kind == locks.Exclusive && !l.writable {
		if _, found, err := l.TestLock(r, kind); err == nil && found != locks.None {
			return false, nil // opening for writing would only break leases
		}
		if err := l.changeDescription(accWrite); err != nil {
			return false, err
		}
	}
	err := l.f.setLock(l.fd, r, kind)
	if err == nil {
		if kind == locks.None {
			l.owner.Unlock(r)
		} else {
			l.part.Lock(r, kind == locks.Exclusive)
		}
	}
	if _, exclusive := l.held.Conflict(nil, everything, false); l.writable && !exclusive && l.owner.Len() <= maxMovedLocks && !l.o.shared.Load() {
		_ = l.changeDescription(accRead) // otherwise the description stays, which has the locks too
	}
	if err == unix.EAGAIN || err == unix.EACCES {
		return false, nil
	}
	return err == nil, l.f.lockError(err, l.held.Locked())
}

// everything is all bytes.
var everything = locks.Range{End: locks.ToEnd}

// hasLock reports whether all bytes in r have this kind of lock.
func (l *fileLocks) hasLock(r locks.Range, kind locks.Kind) bool {
	is := kind == locks.None
	l.held.Union(r, func(part locks.Range, exclusive bool) bool {
		is = part == r && locks.KindOf(exclusive) == kind
		return false
	})
	return is
}

// TestLock implements vfs.FileLocks.
func (l *fileLocks) TestLock(r locks.Range, kind locks.Kind) (locks.Range, locks.Kind, error) {
	if r.Start > maxFileSize {
		return locks.Range{}, locks.None, nil
	}
	lk := flockOf(r, kind)
	if err := l.f.fcntlLock(l.fd, unix.F_OFD_GETLK, &lk); err != nil {
		return locks.Range{}, locks.None, l.f.lockError(err, l.held.Locked())
	}
	found := locks.Range{Start: uint64(lk.Start), End: locks.ToEnd}
	if lk.Len > 0 {
		found.End = uint64(lk.Start+lk.Len) - 1
	}
	switch lk.Type {
	case unix.F_RDLCK:
		return found, locks.Shared, nil
	case unix.F_WRLCK:
		return found, locks.Exclusive, nil
	}
	return locks.Range{}, locks.None, nil
}

// Close implements vfs.FileLocks.
func (l *fileLocks) Close() {
	l.closeDescription(l.lockDescription)
	l.fd = -1
	l.uncountUnused()
}

// setLock sets the kind of lock that the description fd has on all bytes in r. EAGAIN: another
// description has a conflicting lock.
func (f *FS) setLock(fd int, r locks.Range, kind locks.Kind) error {
	lk := flockOf(r, kind)
	return f.fcntlLock(fd, unix.F_OFD_SETLK, &lk)
}

// flockOf returns fcntl(2)'s struct flock. The length 0 means to the end.
func flockOf(r locks.Range, kind locks.Kind) unix.Flock_t {
	types := [...]int16{locks.None: unix.F_UNLCK, locks.Shared: unix.F_RDLCK, locks.Exclusive: unix.F_WRLCK}
	lk := unix.Flock_t{Type: types[kind], Start: int64(r.Start)}
	if r.End < math.MaxInt64 {
		lk.Len = int64(r.End-r.Start) + 1
	}
	return lk
}

func fcntlLock(fd, cmd int, lk *unix.Flock_t) error {
	_, err := retryEINTR(func() (int, error) { return 0, unix.FcntlFlock(uintptr(fd), cmd, lk) })
	return err
}

// lockError returns EOPNOTSUPP for an error of a host that does not lock the file. ENOLCK from a
// local file system means no memory; any other file system that holds no lock yet may have no lock
// manager.
func (f *FS) lockError(err error, holds bool) error {
	switch err {
	case unix.ENOLCK:
		if holds || f.traits.hasStableInodes() || f.traits.volatile {
			return err
		}
	case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.EACCES, unix.EPERM:
	default:
		return err
	}
	f.logLockError.Do(func() {
		f.log.Warn("this host cannot lock some files for the server: NFS clients' locks and local processes' locks do not conflict there", "err", err)
	})
	return unix.EOPNOTSUPP
}
