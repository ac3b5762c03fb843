package nfsclient

import (
	"fmt"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
)

// A MountError is a MOUNT status with which a server denies a mount. errors.Is
// matches it with its Status, and with the corresponding errors of the host and
// io/fs.
type MountError struct {
	Path   string
	Status mount3.Status
}

// Error returns the cause and a remedy.
func (e *MountError) Error() string {
	what := e.hostErrno().Error()
	switch e.Status {
	case mount3.ErrNoEnt:
		what = "the server has no such export; list its exports and correct the path"
	case mount3.ErrAcces, mount3.ErrPerm:
		what = "the server does not export it to this host or user; ask its administrator"
	case mount3.ErrNotDir:
		what = "not a directory"
	}
	return fmt.Sprintf("mount %q: %s (%v)", e.Path, what, e.Status)
}

// Unwrap returns e's Status.
func (e *MountError) Unwrap() error { return e.Status }

// Is reports whether target is the host's error for e.
func (e *MountError) Is(target error) bool {
	return target == e.hostErrno() || e.hostErrno().Is(target)
}

func (e *MountError) hostErrno() syscall.Errno {
	switch e.Status {
	case mount3.ErrNameTooLong:
		return syscall.ENAMETOOLONG
	case mount3.ErrNotSupp:
		return syscall.EOPNOTSUPP
	case mount3.ErrServerFault:
		return syscall.EREMOTEIO
	case mount3.ErrPerm, mount3.ErrNoEnt, mount3.ErrIO, mount3.ErrAcces, mount3.ErrNotDir, mount3.ErrInval:
		return syscall.Errno(e.Status) // the protocol uses UNIX's numbers
	default:
		return syscall.EIO
	}
}
