//go:build linux

package posix

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.Container = (*FS)(nil)

// Within tells whether h lies below the root (vfs.Container). It costs three
// system calls.
func (f *FS) Within(_ context.Context, c *vfs.Cred, h vfs.Handle) error {
	if h == f.root.h {
		return nil
	}
	o, err := f.object(h)
	if err != nil {
		return err
	}
	defer f.put(o)
	if err = f.leadsTo(c, o.fd, o.ino); err != unix.ESTALE {
		return err
	}
	// The name that the descriptor was opened by may have gone, or gone out,
	// and another may be there.
	fd, err := f.handles.open(h)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return f.leadsTo(c, fd, o.ino)
}

// leadsTo tells whether the path that the kernel has for the place fd leads c
// from the root to the inode. The path itself is not believed.
func (f *FS) leadsTo(c *vfs.Cred, fd int, ino uint64) error {
	path, err := f.pathOf(fd)
	if err != nil {
		return err
	}
	found := -1
	err = f.as(c, func() (err error) {
		found, err = openBeneath(f.mount, path)
		return err
	})
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ELOOP, unix.EXDEV:
		return unix.ESTALE
	default:
		return err
	}
	defer closeFD(found)
	var st unix.Statx_t
	if err := statFD(found, &st); err != nil {
		return err
	}
	if st.Ino != ino || !f.exported(&st) {
		return unix.ESTALE
	}
	return nil
}

// pathOf returns what the kernel says is the path from the root to the place
// fd. ESTALE: it has none. ENAMETOOLONG: it has more than 4095 octets.
func (f *FS) pathOf(fd int) (string, error) {
	var b [unix.PathMax]byte
	n, err := unix.Readlinkat(f.proc, magic(f.mount), b[:])
	if err != nil {
		return "", err
	}
	root := string(b[:n])
	n, err = unix.Readlinkat(f.proc, magic(fd), b[:])
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(string(b[:n]), strings.TrimSuffix(root, "/")+"/")
	if !ok || path == "" {
		return "", unix.ESTALE
	}
	return path, nil
}
