//go:build linux

package posix

import (
	"context"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// GetAttr checks no permission, like NFS.
func (f *FS) GetAttr(_ context.Context, _ *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	o, err := f.getObject(h)
	if err != nil {
		return vfs.Attr{}, err
	}
	defer f.putObject(o)
	var st unix.Statx_t
	if err := f.statOrStale(o, &st); err != nil {
		return vfs.Attr{}, err
	}
	return f.attrOfStat(&st), nil
}

// Lookup finds name in dir. An object on another mount, or above the root, is
// EACCES too.
func (f *FS) Lookup(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string) (h vfs.Handle, obj, dirAttr vfs.MaybeAttr, err error) {
	d, err := f.getDirectory(dir)
	if err != nil {
		return h, obj, dirAttr, err
	}
	defer f.putObject(d)
	if h, obj, dirAttr, ok := f.lookupKnown(c, d, name); ok {
		return h, obj, dirAttr, nil
	}
	o, obj, err := f.lookupName(c, d, name)
	if err != nil {
		return h, obj, f.attrOf(d), err
	}
	defer f.putObject(o)
	return o.h, obj, f.attrOf(d), nil
}

// nameBufs are buffers for a name with its NUL.
var nameBufs = sync.Pool{New: func() any { return new([glanceName + 1]byte) }}

// lookupKnown is Lookup for an object that was seen before, by a caller known to have search
// permission. It makes two statx calls and no identity switch. The daemon looks up the name as
// itself, so ok is false if the daemon itself has no permission.
func (f *FS) lookupKnown(c *vfs.Cred, d *object, name string) (h vfs.Handle, obj, dirAttr vfs.MaybeAttr, ok bool) {
	if isDots(name) || checkName(name) != nil {
		return h, obj, dirAttr, false
	}
	var dst, st unix.Statx_t
	if f.statOrStale(d, &dst) != nil || f.mayAccess(d, c, unix.X_OK, &dst) != nil ||
		f.statName(d, name, &st) != nil || !f.isExported(&st) {
		return h, obj, dirAttr, false
	}
	if h, ok = f.handles.knownHandle(st.Ino, st.Btime); !ok {
		return h, obj, dirAttr, false
	}
	return h, f.maybeAttrOf(&st), f.maybeAttrOf(&dst), true
}

// statName reads the attributes behind a name in d, as the daemon.
func (f *FS) statName(d *object, name string, st *unix.Statx_t) error {
	if len(name) > glanceName {
		return unix.ENAMETOOLONG
	}
	b := nameBufs.Get().(*[glanceName + 1]byte)
	defer nameBufs.Put(b)
	looked := attrs.currentTime()
	err := statName(d.fd, append(append(b[:0], name...), 0), st)
	if err == nil {
		f.cacheAttr(st, looked)
	}
	return err
}

// lookupName returns the object that c finds as name in d, with its attributes.
func (f *FS) lookupName(c *vfs.Cred, d *object, name string) (o *object, a vfs.MaybeAttr, err error) {
	if err := checkName(name); err != nil {
		return nil, a, err
	}
	if isDots(name) {
		if name == "." {
			o, err = f.lookupSelf(c, d)
		} else {
			o, err = f.parentOf(c, d)
		}
		if err == nil {
			a = f.attrOf(o)
		}
		return o, a, err
	}
	fd, err := f.openName(c, d, name)
	if err != nil {
		return nil, a, err
	}
	var st unix.Statx_t
	if o, err = f.adoptName(d, name, fd, &st); err == nil {
		a = f.maybeAttrOf(&st)
	}
	return o, a, err
}

// openName opens name in d, as c, as an O_PATH descriptor.
func (f *FS) openName(c *vfs.Cred, d *object, name string) (fd int, err error) {
	err = f.runAs(c, func() (err error) {
		fd, err = openPath(d.fd, name)
		return err
	})
	return fd, err
}

// adoptName creates an object from the O_PATH descriptor fd, which was found as name in d, and sets
// st to its attributes.
func (f *FS) adoptName(d *object, name string, fd int, st *unix.Statx_t) (*object, error) {
	if err := statFD(fd, st); err != nil {
		closeFD(fd)
		return nil, err
	}
	return f.adoptSeen(d, name, fd, st)
}

// adoptSeen is like adoptName, for a descriptor whose attributes are already in
// st.
func (f *FS) adoptSeen(d *object, name string, fd int, st *unix.Statx_t) (*object, error) {
	h, err := f.handleIn(d, name, fd, st)
	if err == nil {
		err = f.handles.persist(h)
	}
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	return f.adoptFD(h, fd, st), nil
}

// handleIn returns the handle for the O_PATH descriptor fd, which was found as name in d.
func (f *FS) handleIn(d *object, name string, fd int, st *unix.Statx_t) (vfs.Handle, error) {
	if !f.isExported(st) {
		return vfs.Handle{}, unix.EACCES
	}
	return f.handles.handleOf(fd, st, d.ino, []byte(name))
}

// lookupSelf returns d again, if c may look up "." in it.
func (f *FS) lookupSelf(c *vfs.Cred, d *object) (*object, error) {
	if err := f.checkPermission(d, c, unix.X_OK); err != nil {
		return nil, err
	}
	return f.getObject(d.h)
}

// ReadLink checks no permission, like the kernel.
func (f *FS) ReadLink(_ context.Context, _ *vfs.Cred, h vfs.Handle) (string, vfs.MaybeAttr, error) {
	o, err := f.getObject(h)
	if err != nil {
		return "", vfs.MaybeAttr{}, err
	}
	defer f.putObject(o)
	if o.typ != vfs.TypeLnk {
		return "", f.attrOf(o), unix.EINVAL
	}
	for size := 256; ; size *= 4 {
		b := make([]byte, size)
		n, err := retryEINTR(func() (int, error) { return unix.Readlinkat(o.fd, "", b) })
		f.noteRead(o)
		if err != nil {
			return "", f.attrOf(o), err
		}
		if n < size {
			return string(b[:n]), f.attrOf(o), nil
		}
		if size >= maxLinkLen {
			return "", f.attrOf(o), unix.ENAMETOOLONG
		}
	}
}
