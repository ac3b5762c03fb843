//go:build linux

package posix

import (
	"context"
	"math"

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
	f        *FS
	o        *object
	fd       int
	writable bool // fd is open for writing too

	held  locks.Object
	owner *locks.Owner // the owner in held
	part  *locks.Part
	share sharePlace
}

// OpenLocks opens a regular file with the daemon's own rights (vfs.Locker). Locked files may take a
// quarter of the descriptors that the cache may have: Files, which may take half, must not keep
// clients from locking. A locked file counts against the share of the client that locked it first.
func (f *FS) OpenLocks(ctx context.Context, h vfs.Handle) (vfs.FileLocks, error) {
	o, err := f.getObject(h)
	if err != nil {
		return nil, err
	}
	defer f.putObject(o)
	if o.typ != vfs.TypeReg {
		return nil, unix.EINVAL
	}
	share, ok := takeShare(ctx, f.cache.shares.locks)
	if ok && !f.cache.reserveFDs(&f.cache.locked, 1, f.cache.max/4) {
		share.releasePlace()
		ok = false
	}
	if !ok {
		f.log.Warn("too many locked files, clients must wait: raise the limit on open files (RLIMIT_NOFILE), which bounds them", "client", vfs.ClientOf(ctx))
		return nil, unix.EMFILE
	}
	l := &fileLocks{f: f, o: o, share: share}
	if err = l.openFile(); err != nil {
		l.releaseFDs()
		return nil, f.lockError(err, false)
	}
	f.cache.fds.Add(1)
	f.cache.closeExcess(false)
	l.owner = l.held.NewOwner(nil)
	l.part = l.owner.NewPart()
	return l, nil
}

// openFile opens the file. The holder of a write lease locks through the leased description,
// because another one would break the lease.
func (l *fileLocks) openFile() (err error) {
	l.o.mu.Lock()
	defer l.o.mu.Unlock()
	if l.writable = l.o.shared.Load(); l.writable {
		l.fd, err = dupFD(l.o.fd)
	} else {
		l.fd, err = l.f.reopenFD(l.o.fd, unix.O_RDONLY)
	}
	return err
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
		if err := l.reopenFile(unix.O_RDWR); err != nil {
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
		_ = l.reopenFile(unix.O_RDONLY) // otherwise the description stays, which has the locks too
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

// reopenFile changes to another description of the file. The new description takes the locks, all
// shared, before the old description is closed. Only the old one leads to the file, which may have
// lost its name, and whose FS may be closed.
func (l *fileLocks) reopenFile(access int) error {
	fd, err := retryEINTR(func() (int, error) {
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
	l.unlockAndClose()
	l.fd, l.writable = fd, access == unix.O_RDWR
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
	l.unlockAndClose()
	l.releaseFDs()
	l.f.cache.fds.Add(-1)
}

// releaseFDs gives back what OpenLocks has counted.
func (l *fileLocks) releaseFDs() {
	l.f.cache.releaseFDs(&l.f.cache.locked, 1)
	l.share.releasePlace()
}

// unlockAndClose unlocks all bytes, and closes the description. A process that is about
// to be started may have the description for another moment.
func (l *fileLocks) unlockAndClose() {
	_ = l.f.setLock(l.fd, everything, locks.None)
	closeFD(l.fd)
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
