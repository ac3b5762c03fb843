//go:build linux

package posix

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/handletable"
)

// A namedObject is the object whose name is about to change, if it belongs to the export. Close it
// without holding directory locks: a large file's last close waits until its storage is free.
type namedObject struct {
	handletable.Place
	fd          int        // -1: no object, or known is set
	known       vfs.Handle // for an object seen before, which needs no descriptor
	st          unix.Statx_t
	changeBegun bool    // for the change in progress, see attrCache
	o           *object // nil: it was not in use
}

var noNamedObject = namedObject{fd: -1}

// lookUpNamed looks up name as the thread's current identity. No error means that the call that
// follows fails too, or needs no record: nothing that has a name is moved or removed without a call
// to the handles.
func (f *FS) lookUpNamed(d *object, name string) (n namedObject, err error) {
	if n, ok := f.lookUpKnown(d, name); ok {
		return n, nil
	}
	n.Place = handletable.Place{Dir: d.ino, Name: name}
	n.fd, err = f.openNamed(d.fd, name)
	if err == nil {
		if err = statFD(n.fd, &n.st); err == nil && f.isExported(&n.st) {
			return n, nil
		}
		closeFD(n.fd)
	}
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ENAMETOOLONG:
		err = nil
	}
	return noNamedObject, err
}

// lookUpKnown is lookUpNamed for an object that was seen before.
func (f *FS) lookUpKnown(d *object, name string) (n namedObject, ok bool) {
	n = namedObject{Place: handletable.Place{Dir: d.ino, Name: name}, fd: -1}
	if f.statName(d, name, &n.st) != nil || !f.isExported(&n.st) {
		return n, false
	}
	if n.st.Nlink == 1 && n.st.Blocks >= slowBlocks { // otherwise removing it would free the storage under the lock
		return n, false
	}
	n.known, ok = f.handles.knownHandle(n.st.Ino, n.st.Btime)
	return n, ok
}

func (f *FS) closeNamed(n *namedObject) {
	if n.fd >= 0 {
		closeFD(n.fd)
	}
	if n.o != nil {
		f.putObject(n.o)
	}
}

// recordRemoval records that n has lost its name. An object without another name is
// not kept open, so that its storage is freed.
func (f *FS) recordRemoval(n *namedObject) error {
	if n.fd < 0 {
		return f.recordKnownRemoval(n)
	}
	before := n.st
	switch err := f.statAgain(n.fd, &n.st); err {
	case nil:
	case unix.ENOENT, unix.ESTALE: // from FUSE, for an object without a name, or without this one
		n.st.Nlink = otherLinks(&before)
	default:
		return err
	}
	f.noteChange(&before, &n.st, false)
	h, err := f.handles.removeName(n.fd, &n.st, n.Place)
	if err == nil && n.st.Nlink == 0 {
		n.o = f.cache.getObject(h)
		f.cache.forgetObject(h)
	}
	return err
}

// otherLinks returns an object's link count without one name.
func otherLinks(st *unix.Statx_t) uint32 {
	if typeOf(st.Mode) == vfs.TypeDir {
		return 0
	}
	return max(st.Nlink, 1) - 1
}

// recordKnownRemoval is recordRemoval for an object seen before, or for none. Only an open object
// keeps its storage.
func (f *FS) recordKnownRemoval(n *namedObject) error {
	if n.o = f.cache.getObject(n.known); n.o == nil {
		return nil
	}
	before := n.st
	switch err := f.statOrStale(n.o, &n.st); err {
	case nil:
		f.noteChange(&before, &n.st, false)
		return nil
	case unix.ESTALE:
		return nil // statOrStale has dropped it from the cache
	default:
		return err
	}
}
