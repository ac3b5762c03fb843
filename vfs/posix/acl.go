//go:build linux

package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.ACLs = (*FS)(nil)

// Extended attributes that hold ACLs.
const (
	accessACL  = "system.posix_acl_access"
	defaultACL = "system.posix_acl_default"
)

// HasACLs reports whether the host's file system has lists.
func (f *FS) HasACLs() bool { return f.acls }

// hasACLs reports whether fd's file system supports ACLs.
func hasACLs(fd int) bool {
	_, err := unix.Fgetxattr(fd, accessACL, nil)
	return err != unix.EOPNOTSUPP
}

// GetACL reads an object's ACLs. Without ACL support in the file system, no object has one.
func (f *FS) GetACL(_ context.Context, c *vfs.Cred, h vfs.Handle) (access, def vfs.ACL, a vfs.MaybeAttr, err error) {
	o, err := f.getObject(h)
	if err != nil {
		return nil, nil, a, err
	}
	defer f.putObject(o)
	var st unix.Statx_t
	if err := f.statOrStale(o, &st); err != nil {
		return nil, nil, a, err
	}
	err = f.runAs(c, func() (err error) {
		if access, err = getACL(o.fd, accessACL); err == nil && o.typ == vfs.TypeDir {
			def, err = getACL(o.fd, defaultACL)
		}
		return err
	})
	return access, def, f.maybeAttrOf(&st), err
}

// SetACL sets an object's ACLs as the caller: the kernel permits it to the owner. An ACL that was
// set before an error stays set.
func (f *FS) SetACL(_ context.Context, c *vfs.Cred, h vfs.Handle, access, def *vfs.ACL) (vfs.MaybeAttr, error) {
	o, err := f.getObject(h)
	if err != nil {
		return vfs.MaybeAttr{}, err
	}
	defer f.putObject(o)
	a, err := f.setACLs(o, c, access, def)
	if err == nil {
		err = f.syncObject(o)
	}
	return a, err
}

func (f *FS) setACLs(o *object, c *vfs.Cred, access, def *vfs.ACL) (vfs.MaybeAttr, error) {
	var st unix.Statx_t
	if err := f.beginChange(o, &st); err != nil {
		return vfs.MaybeAttr{}, err
	}
	defer f.endChange(o)
	err := f.runAs(c, func() error {
		if err := setACL(o.fd, accessACL, access); err != nil {
			return err
		}
		return setACL(o.fd, defaultACL, def)
	})
	o.forgetRights()
	return f.attrAfterChange(o, &st, false), err
}

// forgetRights drops all cached verdicts on o. An ACL may have changed within one ctime clock tick,
// and nothing else shows the change.
func (o *object) forgetRights() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.verdicts {
		o.verdicts[i].asked = 0
	}
	for _, fl := range o.files {
		fl.seen.Store(&perms{})
	}
}

// getACL reads an ACL through the O_PATH descriptor fd. It goes through /proc, because the kernel
// reads no attributes by an O_PATH descriptor.
func getACL(fd int, name string) (vfs.ACL, error) {
	b := make([]byte, usualACLLen)
	for {
		n, err := unix.Getxattr(magicPath(fd), name, b)
		switch err {
		case nil:
			return parseACL(b[:n])
		case unix.ENODATA, unix.EOPNOTSUPP:
			return nil, nil
		case unix.ERANGE:
			if len(b) < maxXattr {
				b = make([]byte, maxXattr)
				continue
			}
		}
		return nil, err
	}
}

// setACL sets an ACL through the O_PATH descriptor fd, unless a is nil.
func setACL(fd int, name string, a *vfs.ACL) error {
	switch {
	case a == nil:
		return nil
	case len(*a) > 0:
		return unix.Setxattr(magicPath(fd), name, appendACL(nil, *a), 0)
	}
	if err := unix.Removexattr(magicPath(fd), name); err != unix.ENODATA {
		return err
	}
	return nil
}
