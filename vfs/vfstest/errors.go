package vfstest

import "syscall"

// Errors with numbers in the standard, as a host reports them.
const (
	errAccess   = syscall.EACCES
	errPerm     = syscall.EPERM
	errExist    = syscall.EEXIST
	errNoEnt    = syscall.ENOENT
	errInval    = syscall.EINVAL
	errStale    = syscall.ESTALE
	errNotDir   = syscall.ENOTDIR
	errIsDir    = syscall.EISDIR
	errNotEmpty = syscall.ENOTEMPTY
	errTooBig   = syscall.EFBIG
	errNameLong = syscall.ENAMETOOLONG
)
