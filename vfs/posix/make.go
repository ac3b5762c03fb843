//go:build linux

package posix

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A maker creates one object.
type maker struct {
	name string
	attr vfs.SetAttr // the new object's attributes

	// call creates the object in the directory and opens it as an O_PATH descriptor. It runs as
	// the caller. EEXIST means that the name exists.
	call func(dir int) (fd int, err error)

	// keptData reports, by the attributes, whether the new object has kept the data
	// that call stored in it. If not, the object is removed and the result is
	// EOPNOTSUPP. Nil means that no check is needed.
	keptData func(st *unix.Statx_t) bool

	// changed reports whether the new object was changed after call.
	changed bool

	// acceptExisting decides whether an existing object with the name is acceptable. Nil
	// means EEXIST.
	acceptExisting func(o *object) error

	// open, if not nil, is for the descriptor that made a file, open for reading
	// and writing.
	open *int
}

const (
	defaultFileMode = 0o600 // if the client leaves the mode to the server
	defaultDirMode  = 0o700
)

// initialAttr prepares a new object's attributes. As with knfsd, only root may give it another
// owner.
func (f *FS) initialAttr(c *vfs.Cred, s vfs.SetAttr, mode uint32) vfs.SetAttr {
	if s.Mode != nil {
		mode = *s.Mode & modeBits
	}
	s.Mode = &mode
	if !f.switches || c.UID != 0 {
		s.UID, s.GID = nil, nil
	}
	return s
}

// makeNew creates an object in dir, and puts it on stable storage.
func (f *FS) makeNew(ctx context.Context, c *vfs.Cred, dir vfs.Handle, m *maker) (vfs.Made, error) {
	o, made, err := f.makeObject(ctx, c, dir, m)
	if o != nil {
		f.putObject(o)
	}
	return made, err
}

// makeObject is makeNew, but also returns the object, if there is one.
func (f *FS) makeObject(ctx context.Context, c *vfs.Cred, dir vfs.Handle, m *maker) (o *object, made vfs.Made, err error) {
	d, err := f.getDirectory(dir)
	if err != nil {
		return nil, made, err
	}
	defer f.putObject(d)
	if o, err = f.makeIn(ctx, c, d, m, &made); err != nil {
		return nil, made, err
	}
	made.Handle = o.h
	if !made.Attr.OK {
		made.Attr = f.attrOf(o)
	}
	return o, made, errors.Join(f.syncNew(o, m), f.syncObject(d))
}

// makeIn creates the object. It sets the directory's attributes before and after in made, and the
// object's if known.
func (f *FS) makeIn(ctx context.Context, c *vfs.Cred, d *object, m *maker, made *vfs.Made) (o *object, err error) {
	var st, dst unix.Statx_t
	w, err := f.beginNames(ctx, d, &dst, nameReport{unix.IN_CREATE, m.name})
	if err != nil {
		return nil, err
	}
	defer f.endNames(d, w)
	made.Dir = f.unchangedWCC(&dst)
	if err := checkNewName(m.name); err != nil {
		return nil, err
	}
	if err := f.handles.persistAll(); err != nil { // after the object is made, it is too late to fail
		if m.acceptExisting != nil {
			if o, terr := f.useExisting(c, d, m); terr != unix.ENOENT {
				return o, terr
			}
		}
		return nil, err
	}
	var fd int
	err = f.runAs(c, func() (err error) {
		if fd, err = m.call(d.fd); err == nil {
			err = f.finishNew(d, fd, m, &st)
		}
		return err
	})
	if st.Ino != 0 {
		attrs.noteChanged(f.idOf(st.Ino)) // it may have been seen before it was finished
	}
	made.Dir.After = f.attrAfterChange(d, &dst, err == nil)
	if err == nil {
		made.Dir.Atomic = w.isAtomic(&made.Dir.After, nil)
	}
	switch {
	case err == nil:
		if o, err = f.adoptMade(d, m.name, fd, &st); err == nil {
			made.Attr = f.maybeAttrOf(&st)
		}
		err = hideTemporary(err)
	case err == unix.EEXIST && m.acceptExisting != nil:
		o, err = f.useExisting(c, d, m)
	}
	return o, err
}

// adoptMade is adoptSeen for a new object. The object exists, so a later tick handles an error in
// recording its handle.
func (f *FS) adoptMade(d *object, name string, fd int, st *unix.Statx_t) (*object, error) {
	h, err := f.handleIn(d, name, fd, st)
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	_ = f.handles.persist(h)
	return f.adoptFD(h, fd, st), nil
}

// useExisting returns the object that has the name, if the maker accepts it.
func (f *FS) useExisting(c *vfs.Cred, d *object, m *maker) (*object, error) {
	fd, err := f.openName(c, d, m.name)
	if err != nil {
		return nil, err
	}
	var st unix.Statx_t
	o, err := f.adoptName(d, m.name, fd, &st)
	if err != nil {
		return nil, err
	}
	if err := m.acceptExisting(o); err != nil {
		f.putObject(o)
		return nil, err
	}
	return o, nil
}

// finishNew sets the attributes that the call which made the object could not set,
// and reads the result into st. On failure it closes fd.
func (f *FS) finishNew(d *object, fd int, m *maker, st *unix.Statx_t) error {
	err := statFD(fd, st)
	if err == nil && m.keptData != nil && !m.keptData(st) {
		closeFD(fd)
		_ = unix.Unlinkat(d.fd, m.name, 0)
		return unix.EOPNOTSUPP
	}
	if err == nil {
		later := m.attr
		if !f.modeCut(d, st, *later.Mode) {
			later.Mode = nil
		}
		if err = f.changeOwnerMode(fd, typeOf(st.Mode), &later); err == nil {
			err = changeTimes(fd, &later)
		}
		if m.changed = changesAny(&later); err == nil && m.changed {
			err = f.statAgain(fd, st)
		}
	}
	if err != nil {
		closeFD(fd)
	}
	return hideTemporary(err)
}

// changesAny reports whether s changes anything except a size.
func changesAny(s *vfs.SetAttr) bool {
	return s.Mode != nil || s.UID != nil || s.GID != nil || s.AtimeHow != vfs.DontChange || s.MtimeHow != vfs.DontChange
}

// modeCut reports whether the process's umask cleared bits in a new object's mode. Additional bits
// do not count: directories inherit the set-group-ID bit. The directory's default ACL replaces the
// umask.
func (f *FS) modeCut(d *object, st *unix.Statx_t, mode uint32) bool {
	t := typeOf(st.Mode)
	if t == vfs.TypeLnk || mode&^uint32(st.Mode) == 0 {
		return false
	}
	n, err := unix.Getxattr(magicPath(d.fd), "system.posix_acl_default", nil)
	return err != nil || n == 0
}

// syncNew puts a new object on stable storage. For an object that cannot be opened, syncing its
// directory is enough, because a journal has both in one transaction, unless the object was changed
// after it was made.
func (f *FS) syncNew(o *object, m *maker) error {
	if o.typ == vfs.TypeReg || o.typ == vfs.TypeDir || m.changed {
		return f.syncObject(o)
	}
	return nil
}
