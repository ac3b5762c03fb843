package billy

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// SetAttr changes size, owner, mode and times, in this order. Changes made
// before an error stay.
func (f *FS) SetAttr(_ context.Context, _ *vfs.Cred, h vfs.Handle, s vfs.SetAttr, guard *vfs.Time) (vfs.WCC, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, err := f.getObject(h)
	w := o.unchangedWCC()
	switch {
	case err != nil:
		return w, err
	case guard != nil && *guard != o.attr.Ctime:
		return w, vfs.ErrNotSync
	case s == vfs.SetAttr{}:
		return w, nil
	case f.readOnly:
		return w, syscall.EROFS
	}
	o.n.exclusive = false
	err = f.changeAll(&o, s)
	f.table.markChanged(o.n)
	w.After = f.attrAfterChange(&o)
	return w, err
}

func (f *FS) changeAll(o *object, s vfs.SetAttr) error {
	if s.Size != nil {
		if err := f.truncateFile(o, *s.Size); err != nil {
			return err
		}
		if s.MtimeHow == vfs.SetToServer && s.AtimeHow == vfs.DontChange {
			s.MtimeHow = vfs.DontChange // truncate has done that
		}
		if now := f.attrAfterChange(o); now.OK {
			o.attr = now.Attr
		}
	}
	if err := f.changeOwnerMode(o, &s); err != nil {
		return err
	}
	return f.changeTimes(o, &s)
}

// changeOwnerMode changes owner, then mode. Setting the present values succeeds
// even without a billy.Change.
func (f *FS) changeOwnerMode(o *object, s *vfs.SetAttr) error {
	uid, gid, mode := valueOr(s.UID, o.attr.UID), valueOr(s.GID, o.attr.GID), valueOr(s.Mode, o.attr.Mode)
	if o.attr.Type == vfs.TypeLnk {
		mode = o.attr.Mode // links have no mode
	}
	owner := uid != o.attr.UID || gid != o.attr.GID
	if f.change == nil && (owner || mode != o.attr.Mode) {
		return syscall.EOPNOTSUPP
	}
	if owner {
		if err := f.change.Lchown(o.name, int(uid), int(gid)); err != nil {
			return f.errnoOf(err)
		}
	}
	if s.Mode != nil && f.change != nil && o.attr.Type != vfs.TypeLnk { // a new owner has cleared bits
		return f.errnoOf(f.change.Chmod(o.name, fileMode(mode)))
	}
	return nil
}

func valueOr(v *uint32, other uint32) uint32 {
	if v != nil {
		return *v
	}
	return other
}

// changeTimes sets both times: a billy.Change cannot set one.
func (f *FS) changeTimes(o *object, s *vfs.SetAttr) error {
	if s.AtimeHow == vfs.DontChange && s.MtimeHow == vfs.DontChange {
		return nil
	}
	for _, t := range []vfs.Time{s.Atime, s.Mtime} {
		if t.Nsec >= 1e9 {
			return syscall.EINVAL
		}
	}
	if f.change == nil || o.attr.Type == vfs.TypeLnk {
		return syscall.EOPNOTSUPP
	}
	now := time.Now()
	at, mt := chooseTime(s.AtimeHow, s.Atime, now, o.attr.Atime), chooseTime(s.MtimeHow, s.Mtime, now, o.attr.Mtime)
	return f.errnoOf(f.change.Chtimes(o.name, at, mt))
}

func chooseTime(how vfs.SetTime, client vfs.Time, now time.Time, old vfs.Time) time.Time {
	switch how {
	case vfs.SetToClient:
		return goTime(client)
	case vfs.SetToServer:
		return now
	}
	return goTime(old)
}

// truncateFile sets a file's size.
func (f *FS) truncateFile(o *object, size uint64) error {
	switch {
	case o.attr.Type == vfs.TypeDir:
		return syscall.EISDIR
	case o.attr.Type != vfs.TypeReg:
		return syscall.EINVAL
	case size > uint64(f.o.MaxFileSize):
		return syscall.EFBIG
	}
	w, err := f.fs.OpenFile(o.name, os.O_RDWR, 0)
	if err != nil {
		return f.errnoOf(err)
	}
	err = w.Truncate(int64(size))
	if e := w.Close(); err == nil {
		err = e
	}
	return f.errnoOf(err)
}
