package exportset

import (
	"context"
	"errors"
	"log/slog"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// HostLocks are the locks that the host holds on a file for clients of all versions. Errors are
// statuses of NFSv4, as package nfs4state needs them: its table has these clients' locks.
type HostLocks struct {
	vfs.FileLocks
	log *slog.Logger
}

// HostLocks returns a function that opens the host's locks on a regular file, which may be called
// when the request and ctx have ended, because an owner that waits gets its lock after its call. A
// failed call returns one of the statuses of SetLock, or NFS4ERR_STALE if the export was removed.
// HostLocks returns nil if the file system has no locks.
func (q *Request) HostLocks(ctx context.Context, h vfs.Handle) func() (*HostLocks, nfs4.Status) {
	e, log, client := q.Export, q.set.log, q.Addr()
	if e.Locker == nil {
		return nil
	}
	return func() (*HostLocks, nfs4.Status) {
		if !e.Enter() {
			return nil, nfs4.ErrStale
		}
		defer e.Leave()
		opened, err := e.Locker.OpenLocks(vfs.WithClient(context.WithoutCancel(ctx), client), h)
		return &HostLocks{opened, log}, hostLockStatus(err, log)
	}
}

// SetLock sets the lock of all bytes in r to kind. It returns NFS4ERR_DENIED if a host process has
// a conflicting lock, NFS4ERR_NOTSUPP if the host has no such locks, NFS4ERR_DELAY if the client
// should try again, NFS4ERR_STALE, NFS4ERR_ROFS, or, for any other error, NFS4ERR_SERVERFAULT.
func (l *HostLocks) SetLock(r locks.Range, kind locks.Kind) nfs4.Status {
	done, err := l.FileLocks.SetLock(r, kind)
	if !done && err == nil {
		return nfs4.ErrDenied
	}
	return hostLockStatus(err, l.log)
}

// TestLock returns a host process's lock that conflicts with SetLock, or locks.None. Except for
// NFS4ERR_DENIED, it has SetLock's statuses.
func (l *HostLocks) TestLock(r locks.Range, kind locks.Kind) (locks.Range, locks.Kind, nfs4.Status) {
	at, found, err := l.FileLocks.TestLock(r, kind)
	return at, found, hostLockStatus(err, l.log)
}

// hostLockStatus converts a vfs.Locker's error.
func hostLockStatus(err error, log *slog.Logger) nfs4.Status {
	if err == nil {
		return nfs4.OK
	}
	switch errno, _ := errors.AsType[syscall.Errno](err); errno {
	case syscall.EOPNOTSUPP:
		return nfs4.ErrNotSupp
	case syscall.ESTALE:
		return nfs4.ErrStale
	case syscall.EROFS:
		return nfs4.ErrROFS
	case syscall.EAGAIN, syscall.EINTR, syscall.ETIMEDOUT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOLCK:
		return nfs4.ErrDelay
	}
	log.Warn("cannot set or test a file lock on the host", "err", err)
	return nfs4.ErrServerFault
}
