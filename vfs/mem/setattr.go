package mem

import (
	"context"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// SetAttr changes size, owner, mode and times, in this order. It checks
// everything before it changes anything.
func (f *FS) SetAttr(_ context.Context, c *vfs.Cred, h vfs.Handle, s vfs.SetAttr, guard *vfs.Time) (vfs.WCC, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.nodeOf(h)
	w := n.unchangedWCC()
	if err == nil && guard != nil && *guard != n.attr.Ctime {
		err = vfs.ErrNotSync
	}
	if err == nil {
		err = n.maySet(c, &s)
	}
	if err != nil || s == (vfs.SetAttr{}) {
		return w, err
	}
	n.exclusive = false
	f.setAttr(n, c, &s)
	w.After = n.maybeAttr()
	return w, nil
}

// maySet returns an error if c may not change n's attributes as in s.
func (n *node) maySet(c *vfs.Cred, s *vfs.SetAttr) error {
	if err := n.maySetSize(c, s.Size); err != nil {
		return err
	}
	owned := n.isOwnedBy(c)
	switch {
	case s.UID != nil && c.UID != 0 && (!owned || *s.UID != n.attr.UID),
		s.GID != nil && c.UID != 0 && (!owned || *s.GID != n.attr.GID && !inGroup(c, *s.GID)),
		s.Mode != nil && !owned:
		return syscall.EPERM
	}
	return n.maySetTimes(c, s)
}

func (n *node) maySetSize(c *vfs.Cred, size *uint64) error {
	switch {
	case size == nil:
		return nil
	case n.attr.Type == vfs.TypeDir:
		return syscall.EISDIR
	case n.attr.Type != vfs.TypeReg:
		return syscall.EINVAL
	case *size > maxFileSize:
		return syscall.EFBIG
	}
	return n.mayWrite(c)
}

// maySetTimes lets callers with write permission set times to now, and owners
// to any value.
func (n *node) maySetTimes(c *vfs.Cred, s *vfs.SetAttr) error {
	for _, t := range []struct {
		how  vfs.SetTime
		time vfs.Time
	}{{s.AtimeHow, s.Atime}, {s.MtimeHow, s.Mtime}} {
		switch {
		case t.how == vfs.SetToClient && t.time.Nsec >= 1e9:
			return syscall.EINVAL
		case t.how == vfs.SetToClient && !n.isOwnedBy(c):
			return syscall.EPERM
		case t.how == vfs.SetToServer && !n.isOwnedBy(c) && n.checkRights(c, write) != nil:
			return syscall.EACCES
		}
	}
	return nil
}

// setAttr changes attributes as c, which may be a new object's creator.
func (f *FS) setAttr(n *node, c *vfs.Cred, s *vfs.SetAttr) {
	a := &n.attr
	now := f.nextTime()
	if s.Size != nil {
		f.truncateNode(n, *s.Size)
		a.Mtime = now
		if c.UID != 0 {
			n.clearSetID()
		}
	}
	if s.UID != nil || s.GID != nil {
		n.clearSetID()
		a.UID, a.GID = valueOr(s.UID, a.UID), valueOr(s.GID, a.GID)
	}
	if s.Mode != nil && a.Type != vfs.TypeLnk { // links have no mode
		a.Mode = *s.Mode & 0o7777
		if c.UID != 0 && !inGroup(c, a.GID) {
			a.Mode &^= 0o2000
		}
	}
	setTime(&a.Atime, s.AtimeHow, s.Atime, now)
	setTime(&a.Mtime, s.MtimeHow, s.Mtime, now)
	a.Ctime = now
}

func valueOr(v *uint32, other uint32) uint32 {
	if v != nil {
		return *v
	}
	return other
}

func setTime(t *vfs.Time, how vfs.SetTime, client, now vfs.Time) {
	switch how {
	case vfs.SetToClient:
		*t = client
	case vfs.SetToServer:
		*t = now
	}
}
