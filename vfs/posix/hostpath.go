//go:build linux

package posix

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

var _ vfs.PathFinder = (*FS)(nil)

// HostPath implements vfs.PathFinder by the kernel's paths of descriptors. It walks the path of an
// object that has a name: the kernel has none for a file that it found by handle alone.
func (f *FS) HostPath(h vfs.Handle) (path string, removed bool, err error) {
	if h == f.root.h {
		return f.dir, false, nil
	}
	o, err := f.getObject(h)
	if err != nil {
		return "", false, err
	}
	defer f.putObject(o)
	var st unix.Statx_t
	if err := f.statObject(o, &st); err != nil {
		return "", false, err
	}
	if st.Nlink == 0 {
		rel, err := f.pathOf(o.fd)
		rel = strings.TrimSuffix(rel, " (deleted)")
		if err == nil && rel == "" { // it was removed outside the export
			err = unix.ESTALE
		}
		return filepath.Join(f.dir, rel), true, err
	}
	if path, err = f.walkedPath(o.fd, o.ino); err != unix.ESTALE {
		return path, false, err
	}
	fd, err := f.handles.openHandle(h) // perhaps by another name, as in Within
	if err != nil {
		return "", false, err
	}
	defer closeFD(fd)
	path, err = f.walkedPath(fd, o.ino)
	return path, false, err
}

// walkedPath returns the path of an O_PATH descriptor if it leads to the inode.
func (f *FS) walkedPath(fd int, ino uint64) (string, error) {
	if err := f.leadsTo(new(vfs.Cred), fd, ino); err != nil {
		return "", err
	}
	rel, err := f.pathOf(fd)
	return filepath.Join(f.dir, rel), err
}

// hostDir returns the path of an open directory, if possible without symbolic links.
func hostDir(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return dir
}
