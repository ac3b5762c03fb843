package nfs4server

import (
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// onHost makes LOCK or LOCKT of the current file ask processes of the host too,
// if the file system can.
func (x *compound) onHost(ctx context.Context, args *nfs4state.Lock) {
	fault := nfs4.ErrServerFault
	if x.op == nfs4.OpLockT {
		fault = testFault
	}
	e, h, s := x.current.use.Export, x.current.h, x.server
	if e.Locker == nil {
		return
	}
	args.Storage = e
	args.Host = func() (nfs4state.HostLocks, nfs4.Status) {
		if !e.Enter() { // the call has ended long ago
			return nil, nfs4.ErrStale
		}
		defer e.Leave()
		l, err := e.Locker.OpenLocks(ctx, h)
		if err != nil {
			return nil, s.hostStatus(err, fault)
		}
		return &hostLocks{l, s}, nfs4.OK
	}
}

// hostLocks are the locks of a file on the host, with statuses for errors.
type hostLocks struct {
	vfs.FileLocks
	server *Server
}

func (l *hostLocks) SetLock(r locks.Range, kind locks.Kind) nfs4.Status {
	done, err := l.FileLocks.SetLock(r, kind)
	if !done && err == nil {
		return nfs4.ErrDenied
	}
	return l.server.hostStatus(err, nfs4.ErrServerFault)
}

func (l *hostLocks) TestLock(r locks.Range, kind locks.Kind) (locks.Range, locks.Kind, nfs4.Status) {
	at, found, err := l.FileLocks.TestLock(r, kind)
	return at, found, l.server.hostStatus(err, testFault)
}

// testFault stands for errors for which LOCKT has no status: the locks of clients
// alone make the answer.
const testFault = nfs4.ErrNotSupp

// hostStatus returns the status of LOCK or LOCKT for an error of a vfs.Locker,
// and fault for those that the lists of errors of these operations do not have.
func (s *Server) hostStatus(err error, fault nfs4.Status) nfs4.Status {
	switch {
	case err == nil:
		return nfs4.OK
	case errors.Is(err, syscall.EOPNOTSUPP):
		return nfs4.ErrNotSupp
	case errors.Is(err, syscall.ENOLCK):
		return nfs4.ErrDelay // for want of memory
	}
	switch status, _ := statusOf(err); status {
	case nfs4.ErrDelay, nfs4.ErrStale, nfs4.ErrROFS:
		return status
	}
	s.log.Warn("the host fails to lock a file for clients, or to look for locks of this host's processes", "err", err)
	return fault
}
