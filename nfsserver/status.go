package nfsserver

import (
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// errnoStatus maps host errors to NFS statuses. It agrees with knfsd, except for the last
// group, in which the client should try again, or no status fits better.
var errnoStatus = map[syscall.Errno]nfs3.Status{
	syscall.EPERM:        nfs3.ErrPerm,
	syscall.ENOENT:       nfs3.ErrNoEnt,
	syscall.EIO:          nfs3.ErrIO,
	syscall.ENXIO:        nfs3.ErrNXIO,
	syscall.E2BIG:        nfs3.ErrFBig,
	syscall.EACCES:       nfs3.ErrAcces,
	syscall.EEXIST:       nfs3.ErrExist,
	syscall.EXDEV:        nfs3.ErrXDev,
	syscall.ENODEV:       nfs3.ErrNoDev,
	syscall.ENOTDIR:      nfs3.ErrNotDir,
	syscall.EISDIR:       nfs3.ErrIsDir,
	syscall.EINVAL:       nfs3.ErrInval,
	syscall.EFBIG:        nfs3.ErrFBig,
	syscall.ENOSPC:       nfs3.ErrNoSpc,
	syscall.EROFS:        nfs3.ErrROFS,
	syscall.EMLINK:       nfs3.ErrMLink,
	syscall.ENAMETOOLONG: nfs3.ErrNameTooLong,
	syscall.ENOTEMPTY:    nfs3.ErrNotEmpty,
	syscall.EDQUOT:       nfs3.ErrDQuot,
	syscall.ESTALE:       nfs3.ErrStale,
	syscall.EREMOTE:      nfs3.ErrRemote,
	syscall.ETIMEDOUT:    nfs3.ErrJukebox,
	syscall.EAGAIN:       nfs3.ErrJukebox,
	syscall.ENOMEM:       nfs3.ErrJukebox,
	syscall.EOPNOTSUPP:   nfs3.ErrNotSupp,
	syscall.ETXTBSY:      nfs3.ErrIO,
	syscall.EUCLEAN:      nfs3.ErrIO,
	syscall.EBADMSG:      nfs3.ErrIO,
	syscall.EREMOTEIO:    nfs3.ErrIO,
	syscall.ENOKEY:       nfs3.ErrPerm,  // an encrypted directory without its key
	syscall.EBUSY:        nfs3.ErrAcces, // removing the name of a mount point

	syscall.EINTR:  nfs3.ErrJukebox,
	syscall.EMFILE: nfs3.ErrJukebox, // descriptors become free again
	syscall.ENFILE: nfs3.ErrJukebox,
	syscall.ENOSYS: nfs3.ErrNotSupp,
	syscall.ELOOP:  nfs3.ErrInval, // opening a symbolic link, which READ and WRITE reject
}

// denialStatus maps denials to NFS statuses.
var denialStatus = [...]nfs3.Status{
	exportset.BadHandle: nfs3.ErrBadHandle,
	exportset.Stale:     nfs3.ErrStale,
	exportset.Access:    nfs3.ErrAcces,
	exportset.Perm:      nfs3.ErrPerm,
	exportset.ReadOnly:  nfs3.ErrROFS,
	exportset.XDev:      nfs3.ErrXDev,
	exportset.Later:     nfs3.ErrJukebox,
	exportset.WrongSec:  nfs3.ErrAcces,

	exportset.WrongTransport: nfs3.ErrAcces,
}

// vfsStatus maps errors from package vfs to NFS statuses. A canceled call's status does not
// matter: its connection has closed, and no reply is sent.
var vfsStatus = []struct {
	err    error
	status nfs3.Status
}{
	{vfs.ErrBadHandle, nfs3.ErrBadHandle},
	{vfs.ErrNotSync, nfs3.ErrNotSync},
	{vfs.ErrBadCookie, nfs3.ErrBadCookie},
	{vfs.ErrBadType, nfs3.ErrBadType},
	{context.Canceled, nfs3.ErrJukebox},
	{context.DeadlineExceeded, nfs3.ErrJukebox},
}

// statusOf is the only conversion of a denial or a file system error to a status. known is
// false if NFS has no status for the error.
func statusOf(err error) (status nfs3.Status, known bool) {
	if err == nil {
		return nfs3.OK, true
	}
	if denial, ok := errors.AsType[exportset.Denial](err); ok {
		return denialStatus[denial], true
	}
	for _, v := range vfsStatus {
		if errors.Is(err, v.err) {
			return v.status, true
		}
	}
	if status, ok := errors.AsType[nfs3.Status](err); ok { // from a file system made for NFS
		return status, true
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if status, known = errnoStatus[errno]; known {
			return status, true
		}
	}
	return nfs3.ErrIO, false
}
