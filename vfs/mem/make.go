package mem

import (
	"context"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// The default modes, if clients leave the mode to the server.
const (
	defaultFileMode = 0o600
	defaultDirMode  = 0o700
	linkMode        = 0o777
)

// A maker describes an object to create.
type maker struct {
	name   string
	typ    vfs.Type
	mode   uint32 // if attr has none
	attr   vfs.SetAttr
	target string
	rdev   vfs.Dev

	// acceptExisting decides whether an existing object with the name is acceptable. Nil
	// means EEXIST.
	acceptExisting func(n *node) error

	exclusive bool
	verifier  uint64
}

// Create creates a file or accepts the existing object. With Unchecked it at most sets the size of
// an existing file; an object of another type is returned unchanged, except a directory, as knfsd
// does.
func (f *FS) Create(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow) (vfs.Made, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, made, err := f.createNode(c, dir, name, how)
	return made, err
}

// createNode is Create, and returns the object too.
func (f *FS) createNode(c *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow) (*node, vfs.Made, error) {
	m := maker{name: name, typ: vfs.TypeReg, mode: defaultFileMode, attr: how.Attr}
	switch how.Mode {
	case vfs.Exclusive:
		m.exclusive, m.verifier = true, how.Verifier
		m.acceptExisting = func(n *node) error {
			if !n.exclusive || n.verifier != how.Verifier {
				return syscall.EEXIST
			}
			return nil
		}
	case vfs.Unchecked:
		m.acceptExisting = func(n *node) error { return f.takeExisting(c, n, how.Attr.Size) }
	}
	return f.makeLocked(c, dir, &m)
}

// takeExisting is an unchecked create of an existing object.
func (f *FS) takeExisting(c *vfs.Cred, n *node, size *uint64) error {
	switch {
	case n.attr.Type == vfs.TypeDir:
		return syscall.EISDIR
	case size == nil || n.attr.Type != vfs.TypeReg:
		return nil
	}
	if err := n.maySetSize(c, size); err != nil {
		return err
	}
	f.setAttr(n, c, &vfs.SetAttr{Size: size})
	return nil
}

// Mkdir creates a directory.
func (f *FS) Mkdir(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string, s vfs.SetAttr) (vfs.Made, error) {
	return f.makeNode(c, dir, &maker{name: name, typ: vfs.TypeDir, mode: defaultDirMode, attr: s})
}

// Symlink creates a symbolic link. The client cannot choose its mode.
func (f *FS) Symlink(_ context.Context, c *vfs.Cred, dir vfs.Handle, name, target string, s vfs.SetAttr) (vfs.Made, error) {
	m := maker{name: name, typ: vfs.TypeLnk, mode: linkMode, attr: s, target: target}
	m.attr.Mode, m.attr.Size = nil, nil
	return f.makeNode(c, dir, &m)
}

// Mknod creates special files, but devices only for root.
func (f *FS) Mknod(_ context.Context, c *vfs.Cred, dir vfs.Handle, name string, t vfs.Type, d vfs.Dev, s vfs.SetAttr) (vfs.Made, error) {
	m := maker{name: name, typ: t, mode: defaultFileMode, attr: s}
	m.attr.Size = nil
	switch t {
	case vfs.TypeFIFO, vfs.TypeSock:
	case vfs.TypeChr, vfs.TypeBlk:
		if d.Major>>majorBits != 0 || d.Minor>>minorBits != 0 {
			return vfs.Made{}, syscall.EINVAL
		}
		m.rdev = d
	default:
		return vfs.Made{}, vfs.ErrBadType
	}
	return f.makeNode(c, dir, &m)
}

// makeNode creates an object in dir, and returns the directory's attributes before and after.
func (f *FS) makeNode(c *vfs.Cred, dir vfs.Handle, m *maker) (vfs.Made, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, made, err := f.makeLocked(c, dir, m)
	return made, err
}

// makeLocked is makeNode, and returns the object too.
func (f *FS) makeLocked(c *vfs.Cred, dir vfs.Handle, m *maker) (n *node, made vfs.Made, err error) {
	d, err := f.dirOf(dir)
	made.Dir = d.unchangedWCC()
	if err != nil {
		return nil, made, err
	}
	if n, err = f.makeIn(c, d, m); err != nil {
		return nil, made, err
	}
	made.Handle, made.Attr, made.Dir.After = f.handleOf(n), n.maybeAttr(), d.maybeAttr()
	return n, made, nil
}

func (f *FS) makeIn(c *vfs.Cred, d *node, m *maker) (*node, error) {
	if vfs.IsDots(m.name) {
		return nil, syscall.EEXIST
	}
	n, err := d.lookupName(c, m.name)
	switch {
	case err == nil && m.acceptExisting != nil:
		return n, m.acceptExisting(n)
	case err == nil:
		return nil, syscall.EEXIST
	case err != syscall.ENOENT:
		return nil, err
	}
	if err := m.checkMake(c, d); err != nil {
		return nil, err
	}
	if err := f.chargeBytes(objectCost + int64(len(m.target))); err != nil {
		return nil, err
	}
	n = f.newObject(c, d, m)
	d.names.add(m.name, n)
	f.noteModified(d)
	return n, nil
}

// checkMake returns an error if c may not create the object in d.
func (m *maker) checkMake(c *vfs.Cred, d *node) error {
	switch {
	case d.checkRights(c, write) != nil:
		return syscall.EACCES
	case strings.IndexByte(m.target, 0) >= 0:
		return syscall.EINVAL
	case len(m.target) > maxTarget:
		return syscall.ENAMETOOLONG
	case (m.typ == vfs.TypeChr || m.typ == vfs.TypeBlk) && c.UID != 0:
		return syscall.EPERM
	case m.typ == vfs.TypeDir && d.attr.Nlink >= maxLinks:
		return syscall.EMLINK
	case m.attr.Size != nil && *m.attr.Size > maxFileSize:
		return syscall.EFBIG
	}
	return (&node{attr: vfs.Attr{UID: c.UID}}).maySetTimes(c, &m.attr)
}

// newObject creates the object. It belongs to its creator, and to the directory's group if the
// directory has the set-group-ID bit. Only root may choose another owner.
func (f *FS) newObject(c *vfs.Cred, d *node, m *maker) *node {
	n := f.newNode(m.typ, c, m.mode)
	s := m.attr
	if c.UID != 0 {
		s.UID, s.GID = nil, nil
	}
	handsOn := d.attr.Mode&0o2000 != 0
	if handsOn {
		n.attr.GID = d.attr.GID
	}
	if s != (vfs.SetAttr{}) {
		f.setAttr(n, c, &s)
	}
	if m.typ == vfs.TypeDir {
		n.attr.Nlink, n.parent = 2, d
		d.attr.Nlink++
		if handsOn {
			n.attr.Mode |= 0o2000
		}
	}
	n.target, n.attr.Rdev = m.target, m.rdev
	if m.typ == vfs.TypeLnk {
		n.attr.Size = uint64(len(m.target))
	}
	n.exclusive, n.verifier = m.exclusive, m.verifier
	return n
}

// Link gives an object another name.
func (f *FS) Link(_ context.Context, c *vfs.Cred, h, dir vfs.Handle, name string) (vfs.MaybeAttr, vfs.WCC, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.nodeOf(h)
	if err != nil {
		return vfs.MaybeAttr{}, vfs.WCC{}, err
	}
	d, err := f.dirOf(dir)
	w := d.unchangedWCC()
	if err == nil {
		err = f.linkNode(c, n, d, name)
	}
	if err != nil {
		return n.maybeAttr(), w, err
	}
	w.After = d.maybeAttr()
	return n.maybeAttr(), w, nil
}

func (f *FS) linkNode(c *vfs.Cred, n, d *node, name string) error {
	if vfs.IsDots(name) {
		return syscall.EEXIST
	}
	_, err := d.lookupName(c, name)
	switch {
	case err == nil:
		return syscall.EEXIST
	case err != syscall.ENOENT:
		return err
	case d.checkRights(c, write) != nil:
		return syscall.EACCES
	case n.attr.Nlink == 0: // it is open, and has no name
		return syscall.ESTALE
	case n.attr.Type == vfs.TypeDir:
		return syscall.EPERM
	case n.attr.Nlink >= maxLinks:
		return syscall.EMLINK
	}
	if err := f.chargeBytes(objectCost); err != nil {
		return err
	}
	n.attr.Nlink++
	n.attr.Ctime = f.nextTime()
	d.names.add(name, n)
	f.noteModified(d)
	return nil
}
