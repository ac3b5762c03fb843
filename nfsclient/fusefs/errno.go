package fusefs

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

const (
	errStale  = fuse.Status(syscall.ESTALE)
	errAccess = fuse.EACCES
)

// errRemoved is the error for an object that the server still knows but that
// has no name.
var errRemoved error = &nfsclient.Error{Status: nfs3.ErrStale}

// errorStatus returns the status that a program gets for an error.
func (m *Mount) errorStatus(err error) fuse.Status {
	var refused *nfsclient.Error
	var auth rpcmsg.AuthError
	var noContext *tickets.Error
	switch {
	case err == nil:
		return fuse.OK
	case errors.As(err, &refused):
		return refusalStatus(refused)
	case errors.Is(err, context.Canceled):
		return fuse.EINTR // the process was killed
	case errors.As(err, &noContext):
		return fuse.Status(noContext.Errno()) // its creator has logged it
	case errors.As(err, &auth):
		m.logFailure(err)
		return errAccess
	}
	m.logFailure(err)
	return fuse.EIO
}

// nodeErrorStatus returns the status for an error in a call about n. The kernel
// looks up a stale object's name again, and then so must this mount.
func (m *Mount) nodeErrorStatus(n *node, err error) fuse.Status {
	status := m.errorStatus(err)
	if status == errStale {
		m.table.removeAllNames(n)
	}
	return status
}

// refusalStatus returns the host's errno for a server's error status.
func refusalStatus(e *nfsclient.Error) fuse.Status {
	switch e.Status {
	case nfs3.ErrJukebox, nfs3.ErrNotSync, nfs3.ErrBadCookie:
		return fuse.EIO // EAGAIN is only for non-blocking descriptors
	default:
		return fuse.Status(e.Errno())
	}
}

// logFailure logs a call that got no reply, at most once per logPause.
func (m *Mount) logFailure(err error) {
	now := time.Now().UnixNano()
	last := m.lastLogged.Load()
	if now-last < int64(logPause) || !m.lastLogged.CompareAndSwap(last, now) {
		return
	}
	m.cfg.Log.Warn("NFS call failed", "source", m.cfg.Source, "err", err)
}
