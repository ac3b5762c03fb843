package billy

import (
	"context"
	"os"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// The default modes, if clients leave the mode to the server.
const (
	defaultFileMode = 0o600
	defaultDirMode  = 0o700
)

// maxLinks is the limit in PathConf if hard links can be made: the smallest limit among Linux file
// systems.
const maxLinks = 127

// A maker creates one object.
type maker struct {
	name string
	attr vfs.SetAttr // the new object's attributes

	// call creates the object.
	call func(path string) error

	// acceptExisting decides whether an existing object with the name is acceptable. Nil
	// means EEXIST.
	acceptExisting func(o *object) error

	// Stored in the node by an exclusive create.
	exclusive bool
	verifier  uint64
}

// Create creates a file or accepts the existing object. With Unchecked it at most sets the size of
// an existing file; an object of another type is returned unchanged, except a directory, as knfsd
// does. Exclusive fails with EOPNOTSUPP if attributes cannot be changed: clients would set them
// next, and use Guarded instead after the error.
func (f *FS) Create(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow) (vfs.Made, error) {
	if how.Mode == vfs.Exclusive {
		return f.createExclusive(dir, name, how)
	}
	s := initialAttr(how.Attr, defaultFileMode)
	m := maker{name: name, attr: s, call: f.fileCreator(*s.Mode)}
	if how.Mode == vfs.Unchecked {
		m.acceptExisting = func(o *object) error {
			switch {
			case o.attr.Type == vfs.TypeDir:
				return syscall.EISDIR
			case s.Size == nil || o.attr.Type != vfs.TypeReg:
				return nil
			}
			return f.changeAll(o, vfs.SetAttr{Size: s.Size})
		}
	}
	return f.makeObject(dir, &m)
}

// initialAttr prepares a new object's attributes.
func initialAttr(s vfs.SetAttr, mode uint32) vfs.SetAttr {
	if s.Mode == nil {
		s.Mode = &mode
	}
	return s
}

func (f *FS) fileCreator(mode uint32) func(path string) error {
	return func(path string) error {
		w, err := f.fs.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode(mode)&os.ModePerm)
		if err != nil {
			return err
		}
		return w.Close()
	}
}

// createExclusive creates a file whose node stores the verifier until the client sets attributes
// (RFC 1813, Section 3.3.8).
func (f *FS) createExclusive(dir vfs.Handle, name string, how vfs.CreateHow) (vfs.Made, error) {
	s, verifier := initialAttr(how.Attr, defaultFileMode), how.Verifier
	m := maker{name: name, attr: s, call: f.fileCreator(*s.Mode), exclusive: true, verifier: verifier, acceptExisting: func(o *object) error {
		if !o.n.exclusive || o.n.verifier != verifier {
			return syscall.EEXIST
		}
		return nil
	}}
	if f.change == nil {
		m.call = failUnsupported
	}
	return f.makeObject(dir, &m)
}

func failUnsupported(string) error { return syscall.EOPNOTSUPP }

// Mkdir creates a directory.
func (f *FS) Mkdir(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string, s vfs.SetAttr) (vfs.Made, error) {
	s = initialAttr(s, defaultDirMode)
	return f.makeObject(dir, &maker{name: name, attr: s, call: func(path string) error {
		return f.fs.MkdirAll(path, fileMode(*s.Mode)&os.ModePerm) // the parent directories exist
	}})
}

// Symlink creates a symbolic link. The client cannot choose its mode.
func (f *FS) Symlink(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name, target string, s vfs.SetAttr) (vfs.Made, error) {
	s.Mode = nil
	return f.makeObject(dir, &maker{name: name, attr: s, call: func(path string) error {
		switch {
		case strings.IndexByte(target, 0) >= 0:
			return syscall.EINVAL
		case len(target) > maxPath:
			return syscall.ENAMETOOLONG
		}
		return f.fs.Symlink(target, path)
	}})
}

// Mknod creates special files if the FS has a Special.
func (f *FS) Mknod(_ context.Context, _ *vfs.Cred, dir vfs.Handle, name string, t vfs.Type, d vfs.Dev, s vfs.SetAttr) (vfs.Made, error) {
	s = initialAttr(s, defaultFileMode)
	call, err := f.specialMaker(t, d, *s.Mode)
	if err != nil {
		return vfs.Made{}, err
	}
	return f.makeObject(dir, &maker{name: name, attr: s, call: call})
}
