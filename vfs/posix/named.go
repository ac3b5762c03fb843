//go:build linux

package posix

import "golang.org/x/sys/unix"

// A named is what has a name that is about to change, if it is of the export.
type named struct {
	place
	fd int // -1: nothing
	st unix.Statx_t
}

var noNamed = named{fd: -1}

// named looks at what has the name, as the caller of the moment.
func (f *FS) named(d *object, name string) named {
	n := named{place: place{d.ino, name}}
	var err error
	if n.fd, err = openPath(d.fd, name); err != nil {
		return noNamed
	}
	if statFD(n.fd, &n.st) != nil || !f.exported(&n.st) {
		n.close()
		return noNamed
	}
	return n
}

func (n *named) close() {
	if n.fd >= 0 {
		closeFD(n.fd)
	}
}

// unnamed takes note that n has lost its name. What has no other is not kept
// open, so that its storage is free.
func (f *FS) unnamed(n named) error {
	if n.fd < 0 {
		return nil
	}
	if err := statFD(n.fd, &n.st); err != nil {
		return err
	}
	h, err := f.handles.removed(n.fd, &n.st, n.place)
	if err == nil && n.st.Nlink == 0 {
		f.cache.forget(h)
	}
	return err
}
