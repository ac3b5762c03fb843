//go:build linux

package posix

import (
	"context"
	"math"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.Locker = (*FS)(nil)

// fileLocks are the locks of one open file description (fcntl(2), F_OFD_SETLK).
// A description for reading alone can have shared locks only. One for writing
// keeps leases away, and keeps the host from executing the file: fileLocks
// changes to such a description for an exclusive lock, and back when no
// exclusive lock remains.
type fileLocks struct {
	f       *FS
	o       *object
	fd      int
	writing bool // fd is open for writing too

	held  locks.Object
	owner *locks.Owner // of held
	part  *locks.Part
}

// OpenLocks opens a regular file with the daemon's own rights (vfs.Locker).
// Locked files may take a quarter of the descriptors that the cache may have:
// Files, which may take half, must not keep clients from locking.
func (f *FS) OpenLocks(_ context.Context, h vfs.Handle) (vfs.FileLocks, error) {
	o, err := f.object(h)
	if err != nil {
		return nil, err
	}
	defer f.put(o)
	if o.typ != vfs.TypeReg {
		return nil, unix.EINVAL
	}
	if f.cache.locked.Add(1) > f.cache.limit()/4 {
		f.cache.locked.Add(-1)
		f.log.Warn("clients must wait to lock more files: raise the limit of open files (RLIMIT_NOFILE), a part of which bounds the files that are locked at once")
		return nil, unix.EMFILE
	}
	l := &fileLocks{f: f, o: o}
	if err = l.open(); err != nil {
		f.cache.locked.Add(-1)
		return nil, f.lockError(err, false)
	}
	f.cache.fds.Add(1)
	f.cache.shrink()
	l.owner = l.held.NewOwner(nil)
	l.part = l.owner.NewPart()
	return l, nil
}

// open opens the file. The holder of a lease for writing locks by the description
// that has the lease, because another one would break the lease.
func (l *fileLocks) open() (err error) {
	l.o.mu.Lock()
	defer l.o.mu.Unlock()
	if l.writing = l.o.shared.Load(); l.writing {
		l.fd, err = dup(l.o.fd)
	} else {
		l.fd, err = l.f.reopen(l.o.fd, unix.O_RDONLY)
	}
	return err
}

// SetLock implements vfs.FileLocks. Bytes beyond the greatest offset of the host
// cannot be locked there.
func (l *fileLocks) SetLock(r locks.Range, kind locks.Kind) (bool, error) {
	if r.Start > maxFileSize {
		return true, nil
	}
	r.End = min(r.End, maxFileSize)
	if l.has(r, kind) {
		return true, nil
	}
	if kind == locks.Exclusive && !l.writing {
		if _, found, err := l.TestLock(r, kind); err == nil && found != locks.None {
			return false, nil // opening for writing would only break leases
		}
		if err := l.reopen(unix.O_RDWR); err != nil {
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
	if _, exclusive := l.held.Conflict(nil, everything, false); l.writing && !exclusive && l.owner.Len() <= maxMovedLocks && !l.o.shared.Load() {
		_ = l.reopen(unix.O_RDONLY) // otherwise the description stays, which has the locks too
	}
	if err == unix.EAGAIN || err == unix.EACCES {
		return false, nil
	}
	return err == nil, l.f.lockError(err, l.held.Locked())
}

// everything is all bytes.
var everything = locks.Range{End: locks.ToEnd}

// has reports whether the lock of all bytes in r is of one kind.
func (l *fileLocks) has(r locks.Range, kind locks.Kind) bool {
	is := kind == locks.None
	l.held.Union(r, func(part locks.Range, exclusive bool) bool {
		is = part == r && locks.KindOf(exclusive) == kind
		return false
	})
	return is
}

// reopen changes to another description of the file. The new description takes
// the locks, all shared, before the old description is closed. The old one alone
// leads to the file, which may have lost its name, and whose FS may be closed.
func (l *fileLocks) reopen(access int) error {
	fd, err := retry(func() (int, error) {
		return unix.Open(magicPath(l.fd), access|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	})
	if err != nil {
		return l.f.lockError(err, l.held.Locked())
	}
	for r := range l.part.Ranges {
		if err := l.f.setLock(fd, r, locks.Shared); err != nil {
			closeFD(fd)
			return l.f.lockError(err, true)
		}
	}
	l.release()
	l.fd, l.writing = fd, access == unix.O_RDWR
	return nil
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
	l.release()
	l.f.cache.locked.Add(-1)
	l.f.cache.fds.Add(-1)
}

// release unlocks all bytes, and closes the description. A process that is about
// to be started may have the description for another moment.
func (l *fileLocks) release() {
	_ = l.f.setLock(l.fd, everything, locks.None)
	closeFD(l.fd)
}

// setLock sets the kind of lock that the description fd has of all bytes in r.
// EAGAIN: another description is in the way.
func (f *FS) setLock(fd int, r locks.Range, kind locks.Kind) error {
	lk := flockOf(r, kind)
	return f.fcntlLock(fd, unix.F_OFD_SETLK, &lk)
}

// flockOf returns struct flock of fcntl(2). The length 0 means to the end.
func flockOf(r locks.Range, kind locks.Kind) unix.Flock_t {
	types := [...]int16{locks.None: unix.F_UNLCK, locks.Shared: unix.F_RDLCK, locks.Exclusive: unix.F_WRLCK}
	lk := unix.Flock_t{Type: types[kind], Start: int64(r.Start)}
	if r.End < math.MaxInt64 {
		lk.Len = int64(r.End-r.Start) + 1
	}
	return lk
}

func fcntlLock(fd, cmd int, lk *unix.Flock_t) error {
	_, err := retry(func() (int, error) { return 0, unix.FcntlFlock(uintptr(fd), cmd, lk) })
	return err
}

// lockError returns EOPNOTSUPP for an error of a host that does not lock the
// file. ENOLCK of a local file system means want of memory; any other file
// system that holds no lock yet may have no lock manager.
func (f *FS) lockError(err error, holds bool) error {
	switch err {
	case unix.ENOLCK:
		if holds || f.lasting || f.volatile {
			return err
		}
	case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.EACCES, unix.EPERM:
	default:
		return err
	}
	f.unlocked.Do(func() {
		f.log.Warn("this host does not lock some files for the server: locks of NFS clients and of this host's processes do not see each other there", "err", err)
	})
	return unix.EOPNOTSUPP
}
