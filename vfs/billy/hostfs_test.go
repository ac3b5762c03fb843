package billy

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	gobilly "github.com/go-git/go-billy/v5"
	"golang.org/x/sys/unix"
)

// A hostFS is a directory of the host as a billy file system with all features,
// implemented by package os.
type hostFS struct{ dir string }

func newHost(t testing.TB) hostFS { return hostFS{t.TempDir()} }

// A hostFile adds the methods of a billy.File to an os.File.
type hostFile struct{ *os.File }

func (hostFile) Lock() error   { return nil }
func (hostFile) Unlock() error { return nil }

func (h hostFS) at(name string) string { return filepath.Join(h.dir, name) }

func (h hostFS) Create(name string) (gobilly.File, error) {
	return h.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

func (h hostFS) Open(name string) (gobilly.File, error) { return h.OpenFile(name, os.O_RDONLY, 0) }

func (h hostFS) OpenFile(name string, flag int, perm os.FileMode) (gobilly.File, error) {
	f, err := os.OpenFile(h.at(name), flag, perm)
	if err != nil {
		return nil, err
	}
	return hostFile{f}, nil
}

func (h hostFS) Stat(name string) (os.FileInfo, error)     { return os.Stat(h.at(name)) }
func (h hostFS) Lstat(name string) (os.FileInfo, error)    { return os.Lstat(h.at(name)) }
func (h hostFS) Rename(from, to string) error              { return os.Rename(h.at(from), h.at(to)) }
func (h hostFS) Remove(name string) error                  { return os.Remove(h.at(name)) }
func (h hostFS) Join(elem ...string) string                { return filepath.Join(elem...) }
func (h hostFS) MkdirAll(name string, m os.FileMode) error { return os.MkdirAll(h.at(name), m) }

func (h hostFS) Symlink(target, link string) error              { return os.Symlink(target, h.at(link)) }
func (h hostFS) Readlink(name string) (string, error)           { return os.Readlink(h.at(name)) }
func (h hostFS) Root() string                                   { return h.dir }
func (h hostFS) Chroot(name string) (gobilly.Filesystem, error) { return hostFS{h.at(name)}, nil }

func (h hostFS) TempFile(string, string) (gobilly.File, error) {
	return nil, gobilly.ErrNotSupported
}

func (h hostFS) ReadDir(name string) ([]os.FileInfo, error) {
	entries, err := os.ReadDir(h.at(name))
	var infos []os.FileInfo
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			infos = append(infos, fi)
		}
	}
	return infos, err
}

// The following methods implement gobilly.Change.

func (h hostFS) Chmod(name string, mode os.FileMode) error { return os.Chmod(h.at(name), mode) }

func (h hostFS) Lchown(name string, uid, gid int) error { return os.Lchown(h.at(name), uid, gid) }
func (h hostFS) Chown(name string, uid, gid int) error  { return os.Chown(h.at(name), uid, gid) }

func (h hostFS) Chtimes(name string, atime, mtime time.Time) error {
	return os.Chtimes(h.at(name), atime, mtime)
}

// The following methods implement Special.

func (h hostFS) Mkfifo(name string, mode uint32) error { return unix.Mkfifo(h.at(name), mode) }
func (h hostFS) Link(name, link string) error          { return os.Link(h.at(name), h.at(link)) }

func (h hostFS) Mknod(name string, mode, major, minor uint32) error {
	return unix.Mknod(h.at(name), mode, int(unix.Mkdev(major, minor)))
}

func (h hostFS) Socket(name string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: h.at(name)})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}
