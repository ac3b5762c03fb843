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
	Rename(from, to string) error
	Chmod(name string, mode fs.FileMode) error
	Chown(name string, uid, gid int) error
	Lchown(name string, uid, gid int) error
	Chtimes(name string, atime, mtime time.Time) error
}

// osFS is package os: any path on this machine.
type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}
func (osFS) OpenRoot(name string) (*os.Root, error)    { return os.OpenRoot(name) }
func (osFS) Stat(name string) (fs.FileInfo, error)     { return os.Stat(name) }
func (osFS) Lstat(name string) (fs.FileInfo, error)    { return os.Lstat(name) }
func (osFS) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(name, perm) }
func (osFS) Readlink(name string) (string, error)      { return os.Readlink(name) }
func (osFS) Symlink(target, name string) error         { return os.Symlink(target, name) }
func (osFS) Remove(name string) error                  { return os.Remove(name) }
func (osFS) Rename(from, to string) error              { return os.Rename(from, to) }
func (osFS) Chmod(name string, mode fs.FileMode) error { return os.Chmod(name, mode) }
func (osFS) Lchown(name string, uid, gid int) error    { return os.Lchown(name, uid, gid) }
func (osFS) Chown(name string, uid, gid int) error     { return os.Chown(name, uid, gid) }
func (osFS) Chtimes(name string, a, m time.Time) error { return os.Chtimes(name, a, m) }

// A hostTree is a directory on this machine.
type hostTree struct {
	fs   hostFS
	path string   // "" for the whole machine
	root *os.Root // fs, if fs is an os.Root

	// top is the whole copy's directory, which stays open longer than those below
	// it, and pathFromTop is the path from top. top is nil for the whole machine.
	top         *os.Root
	pathFromTop string

	explain func(name string, err error) error
}

var _ Tree = (*hostTree)(nil)

// Host returns the Tree of this machine's files, by any path. explain wraps an
// error with the name of its object.
func Host(explain func(name string, err error) error) Tree {
	return &hostTree{fs: osFS{}, explain: explain}
}

func (t *hostTree) Explain(path string, err error) error {
	return t.explain(filepath.Join(t.path, path), err)
}

// Name returns the path on this machine.
func (t *hostTree) Name(path string) string { return filepath.Join(t.path, path) }

func (t *hostTree) mayChown() bool { return os.Geteuid() == 0 }

func (t *hostTree) isFresh() bool { return false }

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
		e.used, e.uid, e.gid, e.nlink = st.Blocks*512, st.Uid, st.Gid, uint32(st.Nlink)
		e.id = fileID{fs: uint64(st.Dev), file: st.Ino}
		e.atime, e.ctime = time.Unix(st.Atim.Unix()), time.Unix(st.Ctim.Unix())
	}
	return e
}

// listEntries reads the directory in batches of listBatch names.
func (t *hostTree) listEntries(ctx context.Context) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		dir, err := t.fs.OpenFile(".", os.O_RDONLY, 0)
		if err != nil {
			yield(entry{}, err)
			return
		}
		defer dir.Close()
		for {
			names, err := dir.Readdirnames(listBatch)
			for _, name := range names {
				e, err := t.stat(ctx, name, false)
				if errors.Is(err, fs.ErrNotExist) {
					continue // removed in the meantime
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

func (t *hostTree) openSub(_ context.Context, path string, _ bool) (Tree, error) {
	root, err := t.fs.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	sub := &hostTree{fs: root, root: root, top: root, path: filepath.Join(t.path, path), explain: t.explain}
	if t.top != nil {
		sub.top, sub.pathFromTop = t.top, filepath.Join(t.pathFromTop, path)
	}
	return sub, nil
}

func (t *hostTree) mkdir(_ context.Context, path string, mode uint32) error {
	return t.fs.Mkdir(path, fs.FileMode(mode&0o777))
}

func (t *hostTree) readlink(_ context.Context, e entry) (string, error) { return t.fs.Readlink(e.path) }

func (t *hostTree) symlink(_ context.Context, target, path string) error {
	return t.fs.Symlink(target, path)
}

func (t *hostTree) remove(_ context.Context, path string) error { return t.fs.Remove(path) }

func (t *hostTree) setAttr(_ context.Context, c attrChange) error { return setHostAttr(t.fs, ".", c) }

// setHostAttr changes the attributes for path.
func setHostAttr(h hostFS, path string, c attrChange) error {
	if c.setOwner && h.Chown(path, int(c.uid), int(c.gid)) != nil {
		c = c.withoutOwner()
	}
	if c.setMode {
		if err := h.Chmod(path, goMode(c.mode)); err != nil {
			return err
		}
	}
	switch {
	case c.setMark:
		return h.Chtimes(path, c.atime, time.Time{})
	case c.setTimes:
		return h.Chtimes(path, c.atime, c.mtime)
	case c.resetAtime:
		return h.Chtimes(path, time.Now(), time.Time{})
	}
	return nil
}

func (t *hostTree) setLinkAttr(_ context.Context, path string, c attrChange) error {
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
