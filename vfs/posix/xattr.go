//go:build linux

package posix

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.Xattrs = (*FS)(nil)

// userPrefix begins the host's names for user attributes. All others belong to the system: no
// client may see or set them.
const userPrefix = "user."

// HasXattrs reports whether the host's file system has such attributes.
func (f *FS) HasXattrs() bool { return f.xattrs }

// hasXattrs reports whether fd's file system supports extended attributes.
func hasXattrs(fd int) bool {
	_, err := unix.Fgetxattr(fd, userPrefix+"x", nil)
	return err != unix.EOPNOTSUPP
}

// GetXattr reads an attribute as the caller, through /proc, because the kernel
// reads none by an O_PATH descriptor.
func (f *FS) GetXattr(_ context.Context, c *vfs.Cred, h vfs.Handle, name string) (value []byte, err error) {
	o, err := f.getObject(h)
	if err != nil {
		return nil, err
	}
	defer f.putObject(o)
	path, name := magicPath(o.fd), userPrefix+name
	err = f.runAs(c, func() (err error) {
		value, err = readGrowing(func(b []byte) (int, error) { return unix.Getxattr(path, name, b) })
		return err
	})
	return value, err
}

// ListXattrs returns the names in the host's order.
func (f *FS) ListXattrs(_ context.Context, c *vfs.Cred, h vfs.Handle) (names []string, err error) {
	o, err := f.getObject(h)
	if err != nil {
		return nil, err
	}
	defer f.putObject(o)
	path := magicPath(o.fd)
	var list []byte
	err = f.runAs(c, func() (err error) {
		list, err = readGrowing(func(b []byte) (int, error) { return unix.Listxattr(path, b) })
		return err
	})
	for name := range strings.SplitSeq(string(list), "\x00") {
		if name, ok := strings.CutPrefix(name, userPrefix); ok {
			names = append(names, name)
		}
	}
	return names, err
}

// readGrowing calls get with memory for its result, which may grow between calls.
func readGrowing(get func(b []byte) (int, error)) ([]byte, error) {
	for {
		n, err := get(nil)
		if n == 0 || err != nil {
			return nil, err
		}
		b := make([]byte, n)
		switch n, err = get(b); err {
		case nil:
			return b[:n], nil
		case unix.ERANGE:
		default:
			return nil, err
		}
	}
}

// SetXattr sets an attribute as the caller.
func (f *FS) SetXattr(_ context.Context, c *vfs.Cred, h vfs.Handle, name string, value []byte, how vfs.XattrHow) (vfs.WCC, error) {
	flags := 0
	switch how {
	case vfs.XattrCreate:
		flags = unix.XATTR_CREATE
	case vfs.XattrReplace:
		flags = unix.XATTR_REPLACE
	}
	return f.changeXattr(c, h, func(path string) error { return unix.Setxattr(path, userPrefix+name, value, flags) })
}

// RemoveXattr removes an attribute as the caller.
func (f *FS) RemoveXattr(_ context.Context, c *vfs.Cred, h vfs.Handle, name string) (vfs.WCC, error) {
	return f.changeXattr(c, h, func(path string) error { return unix.Removexattr(path, userPrefix+name) })
}

// changeXattr changes an object, and puts the change on stable storage.
func (f *FS) changeXattr(c *vfs.Cred, h vfs.Handle, change func(path string) error) (vfs.WCC, error) {
	o, err := f.getObject(h)
	if err != nil {
		return vfs.WCC{}, err
	}
	defer f.putObject(o)
	w, err := f.changeXattrOf(o, c, change)
	if err == nil {
		err = f.syncObject(o)
	}
	return w, err
}

func (f *FS) changeXattrOf(o *object, c *vfs.Cred, change func(path string) error) (w vfs.WCC, err error) {
	var st unix.Statx_t
	if err := f.beginChange(o, &st); err != nil {
		return w, err
	}
	defer f.endChange(o)
	w = f.unchangedWCC(&st)
	path := magicPath(o.fd)
	err = f.runAs(c, func() error { return change(path) })
	w.After = f.attrAfterChange(o, &st, err == nil)
	return w, err
}
