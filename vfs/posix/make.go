//go:build linux

package posix

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A maker makes one object.
type maker struct {
	name string
	attr vfs.SetAttr // what the new object shall have

	// call makes the object in the directory and opens it as a place. It
	// runs as the caller. EEXIST: the name is taken.
	call func(dir int) (fd int, err error)

	// taken tells what the object means that has the name. Nil: EEXIST.
	taken func(o *object) error
}

const (
	defaultFileMode = 0o600 // where the client leaves it to the server
	defaultDirMode  = 0o700
)

// initial prepares the attributes for a new object. As with knfsd only root
// gives it away.
func (f *FS) initial(c *vfs.Cred, s vfs.SetAttr, mode uint32) vfs.SetAttr {
	if s.Mode != nil {
		mode = *s.Mode & modeBits
	}
	s.Mode = &mode
	if !f.switches || c.UID != 0 {
		s.UID, s.GID = nil, nil
	}
	return s
}

// make makes an object in dir, and puts it on stable storage.
func (f *FS) make(c *vfs.Cred, dir vfs.Handle, m *maker) (made vfs.Made, err error) {
	d, err := f.directory(dir)
	if err != nil {
		return made, err
	}
	defer f.put(d)
	o, w, err := f.makeIn(c, d, m)
	made.Dir = w
	if err != nil {
		return made, err
	}
	defer f.put(o)
	made.Handle, made.Attr = o.h, f.attrOf(o)
	return made, errors.Join(f.syncNew(o, m), f.sync(d))
}

// makeIn makes the object, with attributes of the directory before and after.
func (f *FS) makeIn(c *vfs.Cred, d *object, m *maker) (o *object, w vfs.WCC, err error) {
	d.wcc.Lock()
	defer d.wcc.Unlock()
	var st unix.Statx_t
	if err := f.stat(d, &st); err != nil {
		return nil, w, err
	}
	w = f.unchanged(&st)
	if err := checkNewName(m.name); err != nil {
		return nil, w, err
	}
	var fd int
	err = f.as(c, func() (err error) {
		if fd, err = m.call(d.fd); err == nil {
			err = f.finish(d, fd, &m.attr)
		}
		return err
	})
	w.After = f.attrOf(d)
	switch {
	case err == nil:
		o, err = f.adoptName(d, m.name, fd)
		err = late(err)
	case err == unix.EEXIST && m.taken != nil:
		o, err = f.makeTaken(c, d, m)
	}
	return o, w, err
}

// makeTaken returns what has the name, if the maker takes it.
func (f *FS) makeTaken(c *vfs.Cred, d *object, m *maker) (*object, error) {
	fd, err := f.openName(c, d, m.name)
	if err != nil {
		return nil, err
	}
	o, err := f.adoptName(d, m.name, fd)
	if err != nil {
		return nil, err
	}
	if err := m.taken(o); err != nil {
		f.put(o)
		return nil, err
	}
	return o, nil
}

// finish gives a new object what the call that made it could not. It closes
// fd where it fails.
func (f *FS) finish(d *object, fd int, s *vfs.SetAttr) error {
	var st unix.Statx_t
	err := statFD(fd, &st)
	if err == nil {
		later := *s
		if !f.modeCut(d, &st, *s.Mode) {
			later.Mode = nil
		}
		if err = f.changeOwnerMode(fd, typeOf(st.Mode), &later); err == nil {
			err = changeTimes(fd, s)
		}
	}
	if err != nil {
		closeFD(fd)
	}
	return late(err)
}

// modeCut tells whether the process's umask took bits off the mode of a new
// object. The set-group-ID bit of directories is inherited, and an access
// control list of the directory has its own say, in which umask has none.
func (f *FS) modeCut(d *object, st *unix.Statx_t, mode uint32) bool {
	t := typeOf(st.Mode)
	if t == vfs.TypeLnk || mode&^uint32(st.Mode) == 0 {
		return false
	}
	n, err := unix.Getxattr(magicPath(d.fd), "system.posix_acl_default", nil)
	return err != nil || n == 0
}

// syncNew puts a new object on stable storage. For one that cannot be opened
// its directory's sync does, unless it changed after it was made.
func (f *FS) syncNew(o *object, m *maker) error {
	s := &m.attr
	if o.typ == vfs.TypeReg || o.typ == vfs.TypeDir || s.UID != nil || s.GID != nil || s.AtimeHow|s.MtimeHow != 0 {
		return f.sync(o)
	}
	return nil
}
