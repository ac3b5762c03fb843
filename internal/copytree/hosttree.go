package copytree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hostFS is the set of functions that os.Root and package os share.
type hostFS interface {
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	OpenRoot(name string) (*os.Root, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Mkdir(name string, perm fs.FileMode) error
	Readlink(name string) (string, error)
	Symlink(target, name string) error
	Remove(name string) error
	Chmod(name string, mode fs.FileMode) error
	Chown(name string, uid, gid int) error
	Lchown(name string, uid, gid int) error
	Chtimes(name string, atime, mtime time.Time) error
}

// host is package os: any path of this machine.
type host struct{}

func (host) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}
func (host) OpenRoot(name string) (*os.Root, error)    { return os.OpenRoot(name) }
func (host) Stat(name string) (fs.FileInfo, error)     { return os.Stat(name) }
func (host) Lstat(name string) (fs.FileInfo, error)    { return os.Lstat(name) }
func (host) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(name, perm) }
func (host) Readlink(name string) (string, error)      { return os.Readlink(name) }
func (host) Symlink(target, name string) error         { return os.Symlink(target, name) }
func (host) Remove(name string) error                  { return os.Remove(name) }
func (host) Chmod(name string, mode fs.FileMode) error { return os.Chmod(name, mode) }
func (host) Lchown(name string, uid, gid int) error    { return os.Lchown(name, uid, gid) }
func (host) Chown(name string, uid, gid int) error     { return os.Chown(name, uid, gid) }
func (host) Chtimes(name string, a, m time.Time) error { return os.Chtimes(name, a, m) }

// A hostTree is a directory of this machine.
type hostTree struct {
	fs   hostFS
	path string   // "" for the whole machine
	root *os.Root // fs, if fs is an os.Root

	explain func(name string, err error) error
}

var _ Tree = (*hostTree)(nil)

// Host returns this machine's files, by any path. explain wraps an error with
// the name of its object.
func Host(explain func(name string, err error) error) Tree {
	return &hostTree{fs: host{}, explain: explain}
}

func (t *hostTree) Explain(path string, err error) error {
	return t.explain(filepath.Join(t.path, path), err)
}

func (t *hostTree) mayChown() bool { return os.Geteuid() == 0 }

func (t *hostTree) close() {
	if t.root != nil {
		_ = t.root.Close()
	}
}

func (t *hostTree) stat(_ context.Context, path string, follow bool) (entry, error) {
	stat := t.fs.Lstat
	if follow {
		stat = t.fs.Stat
	}
	info, err := stat(path)
	if err != nil {
		return entry{}, err
	}
	return hostEntry(path, info), nil
}

func hostEntry(path string, info fs.FileInfo) entry {
	e := entry{
		path: path, kind: info.Mode().Type(), mode: uint32(info.Mode().Perm()),
		size: info.Size(), used: info.Size(), mtime: info.ModTime(), atime: info.ModTime(),
	}
	for bit, flag := range modeBits {
		if info.Mode()&flag != 0 {
			e.mode |= bit
		}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		e.used, e.uid, e.gid = st.Blocks*512, st.Uid, st.Gid
		e.atime = time.Unix(st.Atim.Unix())
	}
	return e
}

// list reads the directory in pieces of listPiece names.
func (t *hostTree) list(ctx context.Context) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		dir, err := t.fs.OpenFile(".", os.O_RDONLY, 0)
		if err != nil {
			yield(entry{}, err)
			return
		}
		defer dir.Close()
		for {
			names, err := dir.Readdirnames(listPiece)
			for _, name := range names {
				e, err := t.stat(ctx, name, false)
				if errors.Is(err, fs.ErrNotExist) {
					continue // removed meanwhile
				}
				if !yield(e, err) {
					return
				}
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(entry{}, err)
				return
			}
		}
	}
}

func (t *hostTree) sub(_ context.Context, path string, _ bool) (Tree, error) {
	root, err := t.fs.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &hostTree{fs: root, root: root, path: filepath.Join(t.path, path), explain: t.explain}, nil
}

func (t *hostTree) mkdir(_ context.Context, path string, mode uint32) error {
	return t.fs.Mkdir(path, fs.FileMode(mode&0o777))
}

func (t *hostTree) readlink(_ context.Context, e entry) (string, error) { return t.fs.Readlink(e.path) }

func (t *hostTree) symlink(_ context.Context, target, path string) error {
	return t.fs.Symlink(target, path)
}

func (t *hostTree) remove(_ context.Context, path string) error { return t.fs.Remove(path) }

func (t *hostTree) set(_ context.Context, c change) error { return setHost(t.fs, ".", c) }

// setHost changes attributes of the object at path.
func setHost(h hostFS, path string, c change) error {
	if c.setOwner && h.Chown(path, int(c.uid), int(c.gid)) != nil {
		c = c.forbidden()
	}
	if c.setMode {
		if err := h.Chmod(path, goMode(c.mode)); err != nil {
			return err
		}
	}
	if c.setTimes {
		return h.Chtimes(path, c.atime, c.mtime)
	}
	return nil
}

func (t *hostTree) setLink(_ context.Context, path string, c change) error {
	if c.setOwner {
		_ = t.fs.Lchown(path, int(c.uid), int(c.gid)) // may fail, as with a file
	}
	dir, err := t.fs.OpenFile(".", os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	times := []unix.Timespec{unix.NsecToTimespec(c.atime.UnixNano()), unix.NsecToTimespec(c.mtime.UnixNano())}
	return unix.UtimesNanoAt(int(dir.Fd()), path, times, unix.AT_SYMLINK_NOFOLLOW)
}
