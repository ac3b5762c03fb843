package fusefs

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// A fakeCrossingFS is a file system with another one below the directory "inner", as
// servers present it that cross mount points.
type fakeCrossingFS struct {
	vfs.FS
	inner    vfs.FS
	noHandle bool // a listing says nothing of the inner root, as Linux's server
}

// crossed marks the handles of the inner file system.
const crossed = "inner:"

func crossedHandle(h vfs.Handle) vfs.Handle {
	h, _ = vfs.NewHandle(h.AppendTo([]byte(crossed)))
	return h
}

// locate returns the file system of a handle, and its handle there.
func (f *fakeCrossingFS) locate(h vfs.Handle) (vfs.FS, vfs.Handle, func(vfs.Handle) vfs.Handle) {
	if rest, ok := bytes.CutPrefix(h.AppendTo(nil), []byte(crossed)); ok {
		h, _ = vfs.NewHandle(rest)
		return f.inner, h, crossedHandle
	}
	return f.FS, h, func(h vfs.Handle) vfs.Handle { return h }
}

func (f *fakeCrossingFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	fs, h, _ := f.locate(h)
	return fs.GetAttr(ctx, c, h)
}

func (f *fakeCrossingFS) Access(ctx context.Context, c *vfs.Cred, h vfs.Handle, mask uint32) (uint32, vfs.MaybeAttr, error) {
	fs, h, _ := f.locate(h)
	return fs.Access(ctx, c, h, mask)
}

func (f *fakeCrossingFS) Lookup(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.Handle, vfs.MaybeAttr, vfs.MaybeAttr, error) {
	fs, in, wrap := f.locate(dir)
	h, a, dirAttr, err := fs.Lookup(ctx, c, in, name)
	if err == nil && dir == f.Root() && name == "inner" {
		a.Attr, err = f.inner.GetAttr(ctx, c, f.inner.Root())
		return crossedHandle(f.inner.Root()), a, dirAttr, err
	}
	return wrap(h), a, dirAttr, err
}

func (f *fakeCrossingFS) Read(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	fs, h, _ := f.locate(h)
	return fs.Read(ctx, c, h, p, off)
}

func (f *fakeCrossingFS) ReadDir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, cookie, verf uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
	fs, in, wrap := f.locate(dir)
	return fs.ReadDir(ctx, c, in, cookie, verf, plus, func(e *vfs.Entry) bool {
		x := *e
		switch x.Handle = wrap(x.Handle); {
		case dir != f.Root() || string(e.Name) != "inner":
		case f.noHandle:
			x.HasHandle, x.Attr = false, vfs.MaybeAttr{}
		case plus:
			x.Handle = crossedHandle(f.inner.Root())
			x.Attr.Attr, _ = f.inner.GetAttr(ctx, c, f.inner.Root())
		}
		return fn(&x)
	})
}

// newTmpfs mounts an empty tmpfs. Each numbers its files from 1 on.
func newTmpfs(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=777"))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// TestInodesOfTwoFileSystems checks that no two objects of a mount have one inode
// number if the server crosses file systems, that names of one file have one
// number, and that listings have the numbers of lstat.
func TestInodesOfTwoFileSystems(t *testing.T) {
	for name, fs := range map[string]*fakeCrossingFS{"all attributes": {}, "no attributes of the inner root": {noHandle: true}} {
		t.Run(name, func(t *testing.T) {
			needFUSE(t)
			outer, inner := newTmpfs(t), newTmpfs(t)
			for _, dir := range []string{outer, inner} {
				require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o777))
				require.NoError(t, os.WriteFile(filepath.Join(dir, "d/one"), []byte("of "+dir), 0o666))
				require.NoError(t, os.Link(filepath.Join(dir, "d/one"), filepath.Join(dir, "d/two")))
			}
			require.NoError(t, os.Mkdir(filepath.Join(outer, "inner"), 0o777))
			open := func(dir string, fsid uint64) vfs.FS {
				fs, err := posix.Open(dir, posix.Options{FSID: fsid})
				require.NoError(t, err)
				t.Cleanup(func() { assert.NoError(t, fs.Close()) })
				return fs
			}
			fs.FS, fs.inner = open(outer, 1), open(inner, 2)
			m := newServer(t, func(vfs.FS) vfs.FS { return fs }).mount(nil)

			require.Equal(t, mustLstat(t, filepath.Join(outer, "d/one")).Ino, mustLstat(t, filepath.Join(inner, "d/one")).Ino)
			ino := func(name string) uint64 { return mustLstat(t, m.path(name)).Ino }
			seen := make(map[uint64]string)
			for _, name := range []string{".", "d", "d/one", "inner", "inner/d", "inner/d/one"} {
				assert.Empty(t, seen[ino(name)], name)
				seen[ino(name)] = name
			}
			assert.Equal(t, mustLstat(t, filepath.Join(outer, "d/one")).Ino, ino("d/one"), "the server's number")
			assert.Equal(t, ino("d/one"), ino("d/two"))
			assert.Equal(t, ino("inner/d/one"), ino("inner/d/two"))
			for _, plus := range []bool{true, false} {
				m.noReadDirPlus.Store(!plus)
				for _, dir := range []string{"d", "inner", "inner/d"} {
					entries := direntInodes(t, m.path(dir))
					assert.NotEmpty(t, entries)
					for name, number := range entries {
						assert.Equal(t, ino(filepath.Join(dir, name)), number, "%s in %s, attributes %v", name, dir, plus)
					}
				}
			}

			out := t.TempDir()
			archive := filepath.Join(out, "tar")
			tar := func(args ...string) {
				got, err := exec.Command("tar", args...).CombinedOutput()
				require.NoError(t, err, "%s", got)
			}
			tar("-C", m.dir, "-cf", archive, "d", "inner/d")
			tar("-C", out, "-xf", archive)
			assertContent(t, filepath.Join(out, "d/two"), []byte("of "+outer))
			assertContent(t, filepath.Join(out, "inner/d/one"), []byte("of "+inner))
			assert.EqualValues(t, 2, mustLstat(t, filepath.Join(out, "inner/d/one")).Nlink)
		})
	}
}

// direntInodes returns the inode numbers in the entries of a directory.
func direntInodes(t *testing.T, path string) map[string]uint64 {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	all := make(map[string]uint64)
	for p := make([]byte, 64<<10); ; {
		n, err := unix.ReadDirent(fd, p)
		require.NoError(t, err)
		if n == 0 {
			return all
		}
		for b := p[:n]; len(b) > 0; b = b[direntLen(b):] {
			_, _, names := unix.ParseDirent(b[:direntLen(b)], 1, nil)
			for _, name := range names { // "." and ".." are left out
				all[name] = direntIno(b)
			}
		}
	}
}

// TestServerNumbersAnew checks that objects keep their inode numbers if the
// server gives its file system another number.
func TestServerNumbersAnew(t *testing.T) {
	needFUSE(t)
	m := &Mount{}
	m.table = newTable(m, nfs3.FH("root"))
	root := m.table.findNode(1)
	a := nfs3.Attr{Type: nfs3.TypeReg, FSID: 1, FileID: 7}
	m.learnAttr(root, m.nextTick(), &nfs3.Attr{Type: nfs3.TypeDir, FSID: 1, FileID: 2})
	file, _ := m.table.referNode(nfs3.FH("file"), root, "file", sighting{})
	other, _ := m.table.referNode(nfs3.FH("other"), root, "other", sighting{})
	m.learnAttr(file, m.nextTick(), &a)
	a.FSID = 3
	m.learnAttr(file, m.nextTick(), &a)
	m.learnAttr(other, m.nextTick(), &a)
	assert.EqualValues(t, 7, file.inodeLocked())
	assert.NotEqualValues(t, 7, other.inodeLocked())
	m.learnAttr(root, m.nextTick(), &nfs3.Attr{Type: nfs3.TypeDir, FSID: 3, FileID: 2})
	third, _ := m.table.referNode(nfs3.FH("third"), root, "third", sighting{})
	m.learnAttr(third, m.nextTick(), &a)
	assert.EqualValues(t, 7, third.inodeLocked())
}

// direntLen, direntIno and direntOffset return fields of a struct linux_dirent64.
func direntLen(b []byte) int      { return int(binary.NativeEndian.Uint16(b[16:])) }
func direntIno(b []byte) uint64   { return binary.NativeEndian.Uint64(b) }
func direntOffset(b []byte) int64 { return int64(binary.NativeEndian.Uint64(b[8:])) }
