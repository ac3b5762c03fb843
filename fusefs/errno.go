package fusefs

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/tickets"
)

const (
	errStale  = fuse.Status(syscall.ESTALE)
	errAccess = fuse.EACCES
)

// errRemoved is the error for an object that the server still knows but that
// has no name.
var errRemoved error = &nfsclient.Error{Status: nfs3.ErrStale}

// fail returns the status that a program gets for an error.
func (m *Mount) fail(err error) fuse.Status {
	var refused *nfsclient.Error
	var auth rpcmsg.AuthError
	var noContext *tickets.Error
	switch {
	case err == nil:
		return fuse.OK
	case errors.As(err, &refused):
		return statusOf(refused)
	case errors.Is(err, context.Canceled):
		return fuse.EINTR // the process is already dead
	case errors.As(err, &noContext):
		return fuse.Status(noContext.Errno()) // its maker has logged it
	case errors.As(err, &auth):
		m.complain(err)
		return errAccess
	}
	m.complain(err)
	return fuse.EIO
}

// failOn is fail for a call about n. The kernel looks up the name of a stale
// object again, and then so must this mount.
func (m *Mount) failOn(n *node, err error) fuse.Status {
	status := m.fail(err)
	if status == errStale {
		m.table.lose(n)
	}
	return status
}

// statusOf returns the host's errno for a server's refusal.
func statusOf(e *nfsclient.Error) fuse.Status {
	switch e.Status {
	case nfs3.ErrJukebox, nfs3.ErrNotSync, nfs3.ErrBadCookie:
		return fuse.EIO // EAGAIN is only for non-blocking descriptors
	default:
		return fuse.Status(e.Errno())
	}
}

// complain logs a call that had no answer, at most once per logPause.
func (m *Mount) complain(err error) {
	now := time.Now().UnixNano()
	last := m.complained.Load()
	if now-last < int64(logPause) || !m.complained.CompareAndSwap(last, now) {
		return
	}
	m.cfg.Log.Warn("a call has failed", "source", m.cfg.Source, "err", err)
}
