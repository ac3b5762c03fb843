//go:build linux

package posix

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A named is the object behind a name that is about to change, if it belongs to
// the export. Close it without holding the locks of directories: the last close
// of a large file waits until its storage is free.
type named struct {
	place
	fd    int        // -1: no object, or known is set
	known vfs.Handle // of an object seen before, which needs no descriptor
	st    unix.Statx_t
	begun bool    // of the change under way, see attrCache
	o     *object // nil: it was not in use
}

var noNamed = named{fd: -1}

// named looks up name as the thread's current identity. No error means that the
// call that follows fails too, or needs no record: nothing that has a name is
// moved or removed without the handles being told.
func (f *FS) named(d *object, name string) (n named, err error) {
	if n, ok := f.namedBefore(d, name); ok {
		return n, nil
	}
	n.place = place{d.ino, name}
	n.fd, err = f.openNamed(d.fd, name)
	if err == nil {
		if err = statFD(n.fd, &n.st); err == nil && f.exported(&n.st) {
			return n, nil
		}
		closeFD(n.fd)
	}
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ENAMETOOLONG:
		err = nil
	}
	return noNamed, err
}

// namedBefore is named for an object that was seen before.
func (f *FS) namedBefore(d *object, name string) (n named, ok bool) {
	n = named{place: place{d.ino, name}, fd: -1}
	if f.statName(d, name, &n.st) != nil || !f.exported(&n.st) {
		return n, false
	}
	if n.st.Nlink == 1 && n.st.Blocks >= slowBlocks { // otherwise removing it would free the storage under the lock
		return n, false
	}
	n.known, ok = f.handles.seen(n.st.Ino, n.st.Btime)
	return n, ok
}

func (f *FS) closeNamed(n *named) {
	if n.fd >= 0 {
		closeFD(n.fd)
	}
	if n.o != nil {
		f.put(n.o)
	}
}

// unnamed records that n has lost its name. An object without another name is
// not kept open, so that its storage is freed.
func (f *FS) unnamed(n *named) error {
	if n.fd < 0 {
		return f.unnamedKnown(n)
	}
	before := n.st
	if err := f.statAgain(n.fd, &n.st); err != nil {
		return err
	}
	f.noteChange(&before, &n.st, false)
	h, err := f.handles.removed(n.fd, &n.st, n.place)
	if err == nil && n.st.Nlink == 0 {
		n.o = f.cache.get(h)
		f.cache.forget(h)
	}
	return err
}

// unnamedKnown is unnamed for an object seen before, or for none. Only an open
// object keeps its storage.
func (f *FS) unnamedKnown(n *named) error {
	if n.o = f.cache.get(n.known); n.o == nil {
		return nil
	}
	before := n.st
	switch err := f.stat(n.o, &n.st); err {
	case nil:
		f.noteChange(&before, &n.st, false)
		return nil
	case unix.ESTALE:
		return nil // stat has dropped it from the cache
	default:
		return err
	}
}
