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
	o, err := f.object(h)
	if err != nil {
		return vfs.Attr{}, err
	}
	defer f.put(o)
	var st unix.Statx_t
	if err := f.stat(o, &st); err != nil {
		return vfs.Attr{}, err
	}
	return f.attr(&st), nil
}

// Lookup finds name in dir. An object on another mount, or above the root, is
// EACCES too.
func (f *FS) Lookup(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string) (h vfs.Handle, obj, dirAttr vfs.MaybeAttr, err error) {
	d, err := f.directory(dir)
	if err != nil {
		return h, obj, dirAttr, err
	}
	defer f.put(d)
	if h, obj, dirAttr, ok := f.glance(c, d, name); ok {
		return h, obj, dirAttr, nil
	}
	o, obj, err := f.lookup(c, d, name)
	if err != nil {
		return h, obj, f.attrOf(d), err
	}
	defer f.put(o)
	return o.h, obj, f.attrOf(d), nil
}

// nameBufs are buffers for a name with its NUL.
var nameBufs = sync.Pool{New: func() any { return new([glanceName + 1]byte) }}

// glance is Lookup for an object that was seen before, by a caller known to
// have search permission. It takes two calls of statx and no change of
// identity. The daemon looks as itself, so ok is false if the daemon itself has
// no permission.
func (f *FS) glance(c *vfs.Cred, d *object, name string) (h vfs.Handle, obj, dirAttr vfs.MaybeAttr, ok bool) {
	if isDots(name) || checkName(name) != nil {
		return h, obj, dirAttr, false
	}
	var dst, st unix.Statx_t
	if f.stat(d, &dst) != nil || f.may(d, c, unix.X_OK, &dst) != nil ||
		f.statName(d, name, &st) != nil || !f.exported(&st) {
		return h, obj, dirAttr, false
	}
	if h, ok = f.handles.seen(st.Ino, st.Btime); !ok {
		return h, obj, dirAttr, false
	}
	return h, f.some(&st), f.some(&dst), true
}

// statName reads the attributes of a name in d, as the daemon.
func (f *FS) statName(d *object, name string, st *unix.Statx_t) error {
	if len(name) > glanceName {
		return unix.ENAMETOOLONG
	}
	b := nameBufs.Get().(*[glanceName + 1]byte)
	defer nameBufs.Put(b)
	looked := attrs.now()
	err := statName(d.fd, append(append(b[:0], name...), 0), st)
	if err == nil {
		f.see(st, looked)
	}
	return err
}

// lookup returns the object that c finds as name in d, with its attributes.
func (f *FS) lookup(c *vfs.Cred, d *object, name string) (o *object, a vfs.MaybeAttr, err error) {
	if err := checkName(name); err != nil {
		return nil, a, err
	}
	if isDots(name) {
		if name == "." {
			o, err = f.self(c, d)
		} else {
			o, err = f.parent(c, d)
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
		a = f.some(&st)
	}
	return o, a, err
}

// openName opens name in d, as c, as an O_PATH descriptor.
func (f *FS) openName(c *vfs.Cred, d *object, name string) (fd int, err error) {
	err = f.as(c, func() (err error) {
		fd, err = openPath(d.fd, name)
		return err
	})
	return fd, err
}

// adoptName makes an object of the O_PATH descriptor fd, which was found as
// name in d, and sets st to its attributes.
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
		err = f.handles.keep(st.Ino)
	}
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	return f.adopt(h, fd, st), nil
}

// handleIn returns the handle of the O_PATH descriptor fd, which was found as
// name in d.
func (f *FS) handleIn(d *object, name string, fd int, st *unix.Statx_t) (vfs.Handle, error) {
	if !f.exported(st) {
		return vfs.Handle{}, unix.EACCES
	}
	return f.handles.of(fd, st, d.ino, []byte(name))
}

// self returns d again, if c may look up "." in it.
func (f *FS) self(c *vfs.Cred, d *object) (*object, error) {
	if err := f.permitted(d, c, unix.X_OK); err != nil {
		return nil, err
	}
	return f.object(d.h)
}

// ReadLink checks no permission, like the kernel.
func (f *FS) ReadLink(_ context.Context, _ *vfs.Cred, h vfs.Handle) (string, vfs.MaybeAttr, error) {
	o, err := f.object(h)
	if err != nil {
		return "", vfs.MaybeAttr{}, err
	}
	defer f.put(o)
	if o.typ != vfs.TypeLnk {
		return "", f.attrOf(o), unix.EINVAL
	}
	for size := 256; ; size *= 4 {
		b := make([]byte, size)
		n, err := retry(func() (int, error) { return unix.Readlinkat(o.fd, "", b) })
		f.touched(o)
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
