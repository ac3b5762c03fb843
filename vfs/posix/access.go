//go:build linux

package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A right maps ACCESS bits to the kernel's access mode.
type right struct {
	bits uint32
	mode uint32
}

var (
	dirRights = []right{
		{vfs.AccessRead, unix.R_OK},
		{vfs.AccessLookup, unix.X_OK},
		{vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete, unix.W_OK | unix.X_OK},
	}
	fileRights = []right{
		{vfs.AccessRead, unix.R_OK},
		{vfs.AccessModify | vfs.AccessExtend, unix.W_OK},
		{vfs.AccessExecute, unix.X_OK},
	}
)

// Access returns the kernel's decision, without the owner's override.
func (f *FS) Access(_ context.Context, c *vfs.Cred, h vfs.Handle, mask uint32) (granted uint32, a vfs.MaybeAttr, err error) {
	o, err := f.getObject(h)
	if err != nil {
		return 0, a, err
	}
	defer f.putObject(o)
	rights := fileRights
	if o.typ == vfs.TypeDir {
		rights = dirRights
	}
	var st unix.Statx_t
	if err := f.statOrStale(o, &st); err != nil {
		return 0, a, err
	}
	for _, r := range rights {
		if mask&r.bits != 0 && f.mayAccess(o, c, r.mode, &st) == nil {
			granted |= mask & r.bits
		}
	}
	return granted, f.maybeAttrOf(&st), nil
}

// checkAccess returns nil if the calling thread has the rights in mode to fd. AT_EACCESS makes the
// kernel use the effective ids.
func checkAccess(fd int, mode uint32) error {
	return unix.Faccessat2(fd, "", mode, unix.AT_EACCESS|unix.AT_EMPTY_PATH)
}

// checkPermission returns nil if c has all rights in mode (R_OK, W_OK, X_OK) to o.
func (f *FS) checkPermission(o *object, c *vfs.Cred, mode uint32) error {
	return f.runAs(c, func() error { return checkAccess(o.fd, mode) })
}
