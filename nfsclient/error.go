package nfsclient

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// ErrReply is the error for a reply that violates RFC 1813 or is impossible.
var ErrReply = errors.New("nfsclient: malformed or impossible reply from the server")

// An Error is an NFS status with which a server rejects a call. errors.Is
// matches it with its Status, with the host's errno value for that status, and
// with the corresponding errors of io/fs.
type Error struct {
	Prog   uint32 // 0: NFS
	Proc   uint32
	Status nfs3.Status
}

// Error returns the procedure, the host's description of the error, and the
// status.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %v (%v)", procName(e.Prog, e.Proc), e.Errno(), e.Status)
}

// Unwrap returns e's Status.
func (e *Error) Unwrap() error { return e.Status }

// Is reports whether target is the host's error for e.
func (e *Error) Is(target error) bool {
	errno := e.Errno()
	return target == errno || errno.Is(target)
}

// Errno returns the host's error number for e: the nearest number if the host
// has none for the status, and EIO if the protocol does not define it.
func (e *Error) Errno() syscall.Errno {
	if errno, ok := errnos[e.Status]; ok {
		return errno
	}
	return syscall.EIO
}

var errnos = map[nfs3.Status]syscall.Errno{
	nfs3.ErrPerm:        syscall.EPERM,
	nfs3.ErrNoEnt:       syscall.ENOENT,
	nfs3.ErrIO:          syscall.EIO,
	nfs3.ErrNXIO:        syscall.ENXIO,
	nfs3.ErrAcces:       syscall.EACCES,
	nfs3.ErrExist:       syscall.EEXIST,
	nfs3.ErrXDev:        syscall.EXDEV,
	nfs3.ErrNoDev:       syscall.ENODEV,
	nfs3.ErrNotDir:      syscall.ENOTDIR,
	nfs3.ErrIsDir:       syscall.EISDIR,
	nfs3.ErrInval:       syscall.EINVAL,
	nfs3.ErrFBig:        syscall.EFBIG,
	nfs3.ErrNoSpc:       syscall.ENOSPC,
	nfs3.ErrROFS:        syscall.EROFS,
	nfs3.ErrMLink:       syscall.EMLINK,
	nfs3.ErrNameTooLong: syscall.ENAMETOOLONG,
	nfs3.ErrNotEmpty:    syscall.ENOTEMPTY,
	nfs3.ErrDQuot:       syscall.EDQUOT,
	nfs3.ErrStale:       syscall.ESTALE,
	nfs3.ErrRemote:      syscall.EREMOTE,
	nfs3.ErrBadHandle:   syscall.ESTALE, // another server's handle, or an invalid one
	nfs3.ErrNotSync:     syscall.EAGAIN,
	nfs3.ErrBadCookie:   syscall.EAGAIN,
	nfs3.ErrNotSupp:     syscall.EOPNOTSUPP,
	nfs3.ErrTooSmall:    syscall.EINVAL,
	nfs3.ErrServerFault: syscall.EREMOTEIO,
	nfs3.ErrBadType:     syscall.EINVAL,
	nfs3.ErrJukebox:     syscall.EAGAIN,
}
