//go:build linux

package posix

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.Container = (*FS)(nil)

// Within reports whether h lies below the root (vfs.Container). It costs three
// system calls. A file that is removed while it is open stays where it was.
func (f *FS) Within(_ context.Context, c *vfs.Cred, h vfs.Handle) error {
	if h == f.root.h {
		return nil
	}
	o, err := f.getObject(h)
	if err != nil {
		return err
	}
	defer f.putObject(o)
	if err = f.leadsTo(c, o.fd, o.ino); err != unix.ESTALE {
		return err
	}
	var st unix.Statx_t
	if err = f.statOrStale(o, &st); err != nil || st.Nlink == 0 {
		return err // without a name it is open, and can no longer be opened
	}
	// The name by which the descriptor was opened may be gone or outside the
	// export, and the object may have another name.
	fd, err := f.handles.openHandle(h)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return f.leadsTo(c, fd, o.ino)
}

// leadsTo returns nil if the kernel's path for the O_PATH descriptor fd leads c from the root to
// the inode, and ESTALE if not. It walks the path instead of trusting it.
func (f *FS) leadsTo(c *vfs.Cred, fd int, ino uint64) error {
	path, err := f.pathOf(fd)
	if err != nil {
		return err
	}
	found := -1
	err = f.runAs(c, func() (err error) {
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
	if st.Ino != ino || !f.isExported(&st) {
		return unix.ESTALE
	}
	return nil
}

// pathOf returns the kernel's path from the root to the O_PATH descriptor fd.
// It returns ESTALE if there is none, and ENAMETOOLONG if the path exceeds 4095
// bytes.
func (f *FS) pathOf(fd int) (string, error) {
	var b [unix.PathMax]byte
	n, err := unix.Readlinkat(f.proc, magicName(f.mount), b[:])
	if err != nil {
		return "", err
	}
	root := string(b[:n])
	n, err = unix.Readlinkat(f.proc, magicName(fd), b[:])
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(string(b[:n]), strings.TrimSuffix(root, "/")+"/")
	if !ok || path == "" {
		return "", unix.ESTALE
	}
	return path, nil
}
