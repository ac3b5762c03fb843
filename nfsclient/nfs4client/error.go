package nfs4client

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
)

var (
	// ErrReply is the error for a reply that violates the protocol or is
	// impossible.
	ErrReply = errors.New("nfs4client: malformed or impossible reply from the server")

	// ErrUncertain is the error for a change whose reply was lost together with
	// the server's session: the server may have made the change.
	ErrUncertain = errors.New("nfs4client: the server lost the session before it replied, so the change may have been made")

	// ErrUnreachable is the error for a call that could not reach the server
	// for Config.GiveUp.
	ErrUnreachable = errors.New("nfs4client: server unreachable")

	// ErrOtherServer is the error for files that were open when another server
	// took the server's place (eir_server_scope, RFC 8881, Section 2.10.4).
	ErrOtherServer = errors.New("nfs4client: the file was open on another server")

	// ErrLockLost is the error for files whose locks were lost with the
	// server's state: other clients may have locked the bytes since.
	ErrLockLost = errors.New("nfs4client: the server did not let the client reclaim the file's locks")

	// ErrRevoked is the error for files whose open or locks the server has
	// revoked.
	ErrRevoked = errors.New("nfs4client: the server has revoked the file's state")

	// ErrClosed is the error for calls on a closed Session.
	ErrClosed = errors.New("nfs4client: session closed")
)

// An Error is the status of a COMPOUND's failed operation. errors.Is matches an
// Error with its Status, with the host's errno value for that status, and with
// the corresponding errors of io/fs.
type Error struct {
	Op     nfs4.Op // 0 if the server executed no operation
	Status nfs4.Status
}

// Error returns the operation and the status.
func (e *Error) Error() string {
	op := "COMPOUND"
	if e.Op != 0 {
		op = e.Op.String()
	}
	if errno, ok := errnos[e.Status]; ok {
		return fmt.Sprintf("%s: %v (%v)", op, errno, e.Status)
	}
	return fmt.Sprintf("%s: %v", op, e.Status)
}

// Unwrap returns e's Status.
func (e *Error) Unwrap() error { return e.Status }

// Is reports whether target is the host's error for e.
func (e *Error) Is(target error) bool {
	errno, ok := errnos[e.Status]
	return ok && (target == errno || errno.Is(target))
}

// errnos maps statuses to the host's errors.
var errnos = map[nfs4.Status]syscall.Errno{
	nfs4.ErrPerm:        syscall.EPERM,
	nfs4.ErrNoEnt:       syscall.ENOENT,
	nfs4.ErrIO:          syscall.EIO,
	nfs4.ErrNXIO:        syscall.ENXIO,
	nfs4.ErrAccess:      syscall.EACCES,
	nfs4.ErrExist:       syscall.EEXIST,
	nfs4.ErrXDev:        syscall.EXDEV,
	nfs4.ErrNotDir:      syscall.ENOTDIR,
	nfs4.ErrIsDir:       syscall.EISDIR,
	nfs4.ErrInval:       syscall.EINVAL,
	nfs4.ErrFBig:        syscall.EFBIG,
	nfs4.ErrNoSpc:       syscall.ENOSPC,
	nfs4.ErrROFS:        syscall.EROFS,
	nfs4.ErrMLink:       syscall.EMLINK,
	nfs4.ErrNameTooLong: syscall.ENAMETOOLONG,
	nfs4.ErrNotEmpty:    syscall.ENOTEMPTY,
	nfs4.ErrDQuot:       syscall.EDQUOT,
	nfs4.ErrStale:       syscall.ESTALE,
	nfs4.ErrBadHandle:   syscall.ESTALE,
	nfs4.ErrNotSupp:     syscall.EOPNOTSUPP,
	nfs4.ErrSymlink:     syscall.ELOOP,
	nfs4.ErrDenied:      syscall.EAGAIN,
}

// replyError returns ErrReply with details.
func replyError(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrReply, fmt.Errorf(format, args...))
}

// isConnLost reports whether err says that the connection is closed.
func isConnLost(err error) bool {
	return errors.Is(err, oncrpc.ErrClosed) || errors.Is(err, rdma.ErrClosed)
}

// hasStatus reports whether err is an Error with one of the given statuses.
func hasStatus(err error, statuses ...nfs4.Status) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	for _, s := range statuses {
		if e.Status == s {
			return true
		}
	}
	return false
}
