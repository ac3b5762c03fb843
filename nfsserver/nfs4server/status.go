package nfs4server

import (
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
)

var errnoStatus = map[syscall.Errno]nfs4.Status{
	syscall.EPERM:        nfs4.ErrPerm,
	syscall.ENOENT:       nfs4.ErrNoEnt,
	syscall.EIO:          nfs4.ErrIO,
	syscall.ENXIO:        nfs4.ErrIO, // only NFSv4.0 has NFS4ERR_NXIO
	syscall.E2BIG:        nfs4.ErrFBig,
	syscall.EACCES:       nfs4.ErrAccess,
	syscall.EEXIST:       nfs4.ErrExist,
	syscall.EXDEV:        nfs4.ErrXDev,
	syscall.ENODEV:       nfs4.ErrIO,
	syscall.ENOTDIR:      nfs4.ErrNotDir,
	syscall.EISDIR:       nfs4.ErrIsDir,
	syscall.EINVAL:       nfs4.ErrInval,
	syscall.EFBIG:        nfs4.ErrFBig,
	syscall.ENOSPC:       nfs4.ErrNoSpc,
	syscall.EROFS:        nfs4.ErrROFS,
	syscall.EMLINK:       nfs4.ErrMLink,
	syscall.ENAMETOOLONG: nfs4.ErrNameTooLong,
	syscall.ENOTEMPTY:    nfs4.ErrNotEmpty,
	syscall.EDQUOT:       nfs4.ErrDQuot,
	syscall.ESTALE:       nfs4.ErrStale,
	syscall.ETIMEDOUT:    nfs4.ErrDelay,
	syscall.EAGAIN:       nfs4.ErrDelay,
	syscall.ENOMEM:       nfs4.ErrDelay,
	syscall.EOPNOTSUPP:   nfs4.ErrNotSupp,
	syscall.ETXTBSY:      nfs4.ErrIO,
	syscall.EUCLEAN:      nfs4.ErrIO,
	syscall.EBADMSG:      nfs4.ErrIO,
	syscall.EREMOTEIO:    nfs4.ErrIO,
	syscall.ENOKEY:       nfs4.ErrPerm,   // an encrypted directory without its key
	syscall.EBUSY:        nfs4.ErrAccess, // removing the name of a mount point
	syscall.EINTR:        nfs4.ErrDelay,
	syscall.EMFILE:       nfs4.ErrDelay, // descriptors become free again
	syscall.ENFILE:       nfs4.ErrDelay,
	syscall.ENOSYS:       nfs4.ErrNotSupp,
	syscall.ELOOP:        nfs4.ErrSymlink,
}

// errNoParent reports a LOOKUPP at the tree's root.
var errNoParent = errors.New("nfs4server: the root has no parent")

// errorStatus maps denials and errors from package vfs to statuses. The status of a canceled
// call does not matter: its connection has closed.
var errorStatus = []struct {
	err    error
	status nfs4.Status
}{
	{exportset.BadHandle, nfs4.ErrBadHandle},
	{exportset.Stale, nfs4.ErrStale},
	{exportset.Access, nfs4.ErrAccess},
	{exportset.Perm, nfs4.ErrPerm},
	{exportset.ReadOnly, nfs4.ErrROFS},
	{exportset.XDev, nfs4.ErrXDev},
	{exportset.Later, nfs4.ErrDelay},
	{exportset.WrongSec, nfs4.ErrWrongSec},
	{exportset.WrongTransport, nfs4.ErrWrongSec},
	{vfs.ErrBadHandle, nfs4.ErrBadHandle},
	{vfs.ErrBadCookie, nfs4.ErrBadCookie},
	{vfs.ErrBadType, nfs4.ErrBadType},
	{errNoParent, nfs4.ErrNoEnt},
	{context.Canceled, nfs4.ErrDelay},
	{context.DeadlineExceeded, nfs4.ErrDelay},
}

// statusOf is the only conversion of a denial or a file system error to a status. known is
// false if NFS has no status for the error.
func statusOf(err error) (status nfs4.Status, known bool) {
	if err == nil {
		return nfs4.OK, true
	}
	for _, v := range errorStatus {
		if errors.Is(err, v.err) {
			return v.status, true
		}
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if status, known = errnoStatus[errno]; known {
			return status, true
		}
	}
	return nfs4.ErrIO, false
}

// toStatus returns the status for a denial or a file system error.
func (x *compound) toStatus(err error) nfs4.Status {
	if err == nil {
		return nfs4.OK
	}
	return x.failureStatus(err)
}

// failureStatus returns the status for an error, and logs an unknown one.
func (x *compound) failureStatus(err error) nfs4.Status {
	if x.current.use != nil {
		x.current.use.LogFault(err)
	}
	status, known := statusOf(err)
	if !known {
		x.server.log.Warn("file system error without an NFS status; replying NFS4ERR_IO",
			"op", x.op, "err", err)
	}
	if status == nfs4.ErrPerm && x.op != nfs4.OpCreate && x.op != nfs4.OpOpen && x.op != nfs4.OpSetAttr {
		return nfs4.ErrAccess // no other operation has that status (RFC 8881, Section 15.4)
	}
	return status
}
