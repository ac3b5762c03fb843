package nfsclient

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// ErrReply is a reply that is not what RFC 1813 says of its procedure, or
// cannot be true.
var ErrReply = errors.New("nfsclient: the server's reply makes no sense")

// An Error is a server's refusal of a call. errors.Is finds its Status in it,
// the errno value that the host has for the case, and those of io/fs's errors
// that fit.
type Error struct {
	Proc   uint32
	Status nfs3.Status
}

// Error names the procedure, says what is wrong and names the status.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %v (%v)", nfs3.ProcName(e.Proc), e.Errno(), e.Status)
}

// Unwrap returns e's Status.
func (e *Error) Unwrap() error { return e.Status }

// Is compares e with what the host calls the case.
func (e *Error) Is(target error) bool {
	errno := e.Errno()
	return target == errno || errno.Is(target)
}

// Errno returns what the host calls the case: of a status that the host has no
// number for, the nearest, and EIO of one that the protocol does not define.
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
	nfs3.ErrBadHandle:   syscall.ESTALE, // a handle of another server, or of none
	nfs3.ErrNotSync:     syscall.EAGAIN,
	nfs3.ErrBadCookie:   syscall.EAGAIN,
	nfs3.ErrNotSupp:     syscall.EOPNOTSUPP,
	nfs3.ErrTooSmall:    syscall.EINVAL,
	nfs3.ErrServerFault: syscall.EREMOTEIO,
	nfs3.ErrBadType:     syscall.EINVAL,
	nfs3.ErrJukebox:     syscall.EAGAIN,
}
