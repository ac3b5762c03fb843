//go:build linux

package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.ACLs = (*FS)(nil)

// The extended attributes that hold lists.
const (
	accessACL  = "system.posix_acl_access"
	defaultACL = "system.posix_acl_default"
)

// GetACL reads the lists of an object. A file system that has none is the same
// as an object that has none.
func (f *FS) GetACL(_ context.Context, c *vfs.Cred, h vfs.Handle) (access, def vfs.ACL, a vfs.MaybeAttr, err error) {
	o, err := f.object(h)
	if err != nil {
		return nil, nil, a, err
	}
	defer f.put(o)
	var st unix.Statx_t
	if err := f.stat(o, &st); err != nil {
		return nil, nil, a, err
	}
	err = f.as(c, func() (err error) {
		if access, err = getACL(o.fd, accessACL); err == nil && o.typ == vfs.TypeDir {
			def, err = getACL(o.fd, defaultACL)
		}
		return err
	})
	return access, def, f.some(&st), err
}

// SetACL sets the lists of an object in the caller's name: the kernel lets its
// owner do it. What was set before an error stays.
func (f *FS) SetACL(_ context.Context, c *vfs.Cred, h vfs.Handle, access, def *vfs.ACL) (vfs.MaybeAttr, error) {
	o, err := f.object(h)
	if err != nil {
		return vfs.MaybeAttr{}, err
	}
	defer f.put(o)
	a, err := f.setACLs(o, c, access, def)
	if err == nil {
		err = f.sync(o)
	}
	return a, err
}

func (f *FS) setACLs(o *object, c *vfs.Cred, access, def *vfs.ACL) (vfs.MaybeAttr, error) {
	o.wcc.Lock()
	defer o.wcc.Unlock()
	var st unix.Statx_t
	if err := f.stat(o, &st); err != nil {
		return vfs.MaybeAttr{}, err
	}
	err := f.as(c, func() error {
		if err := setACL(o.fd, accessACL, access); err != nil {
			return err
		}
		return setACL(o.fd, defaultACL, def)
	})
	o.forgetRights()
	return f.attrOf(o), err
}

// forgetRights forgets what the kernel said of anyone's rights: a list may have
// changed within a tick of the clock that ctime is read from, and shows nowhere
// else.
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

// getACL reads a list of the place fd, through /proc: a place has no attributes
// of its own to read.
func getACL(fd int, name string) (vfs.ACL, error) {
	b := make([]byte, aclRoom)
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

// setACL sets a list of the place fd, unless it is nil.
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
