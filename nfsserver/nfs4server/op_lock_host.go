package nfs4server

import (
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// useHostLocks makes LOCK or LOCKT of the current file consider locks of host processes, if the
// file system can.
func (x *compound) useHostLocks(ctx context.Context, args *nfs4state.Lock) {
	fault := nfs4.ErrServerFault
	if x.op == nfs4.OpLockT {
		fault = testFault
	}
	e, h, s, client := x.current.use.Export, x.current.h, x.server, x.current.use.Addr()
	if e.Locker == nil {
		return
	}
	args.Storage = e
	args.Host = func() (nfs4state.HostLocks, nfs4.Status) {
		if !e.Enter() { // the call ended long ago
			return nil, nfs4.ErrStale
		}
		defer e.Leave()
		l, err := e.Locker.OpenLocks(vfs.WithClient(ctx, client), h)
		if err != nil {
			return nil, s.hostLockStatus(err, fault)
		}
		return &hostLocks{l, s}, nfs4.OK
	}
}

// hostLocks are a file's locks on the host, with statuses for errors.
type hostLocks struct {
	vfs.FileLocks
	server *Server
}

func (l *hostLocks) SetLock(r locks.Range, kind locks.Kind) nfs4.Status {
	done, err := l.FileLocks.SetLock(r, kind)
	if !done && err == nil {
		return nfs4.ErrDenied
	}
	return l.server.hostLockStatus(err, nfs4.ErrServerFault)
}

func (l *hostLocks) TestLock(r locks.Range, kind locks.Kind) (locks.Range, locks.Kind, nfs4.Status) {
	at, found, err := l.FileLocks.TestLock(r, kind)
	return at, found, l.server.hostLockStatus(err, testFault)
}

// testFault replaces errors for which LOCKT has no status: only the clients' locks then
// determine the result.
const testFault = nfs4.ErrNotSupp

// hostLockStatus converts a vfs.Locker's error to the status of LOCK or LOCKT. It returns fault
// for errors that these operations must not return.
func (s *Server) hostLockStatus(err error, fault nfs4.Status) nfs4.Status {
	switch {
	case err == nil:
		return nfs4.OK
	case errors.Is(err, syscall.EOPNOTSUPP):
		return nfs4.ErrNotSupp
	case errors.Is(err, syscall.ENOLCK):
		return nfs4.ErrDelay // out of memory
	}
	switch status, _ := statusOf(err); status {
	case nfs4.ErrDelay, nfs4.ErrStale, nfs4.ErrROFS:
		return status
	}
	s.log.Warn("cannot set or test a file lock on the host", "err", err)
	return fault
}
