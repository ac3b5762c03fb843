//go:build linux

package posix

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// mountTmpfs mounts a small file system for the duration of the test.
func mountTmpfs(t *testing.T, dir, options string) {
	t.Helper()
	require.NoError(t, unix.Mount("nfsrdma-test", dir, "tmpfs", 0, options))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
}

// smallTestFS returns an export of a whole small file system.
func smallTestFS(t *testing.T, options string) *testFS {
	checkCleanup(t)
	s := newExportedDir(t, "", Options{})
	mountTmpfs(t, s.dir, "mode=0777,"+options)
	return &testFS{t, s, s.open(t), user()}
}

// TestMountCovers checks that a mount inside the export does not show, and that
// the directory beneath does, as with knfsd.
func TestMountCovers(t *testing.T) {
	vfstest.NeedRoot(t)
	eachKind(t, func(t *testing.T, o Options) {
		checkCleanup(t)
		s := newExportedDir(t, "", o)
		w := &testFS{t, s, nil, user()}
		w.hostDir("early")
		w.hostDir("late")
		w.hostFile("early/beneath")
		w.hostFile("late/beneath")
		mountTmpfs(t, s.path("early"), "")
		w.f = s.open(t)
		mountTmpfs(t, s.path("late"), "")
		w.hostFile("early/above")
		w.hostFile("late/above")
		for _, dir := range []string{"early", "late"} {
			w.walk(dir, "beneath")
			_, _, _, err := w.f.Lookup(t.Context(), &w.c, w.walk(dir), "above")
			assert.ErrorIs(t, err, unix.ENOENT)
			assert.Equal(t, w.f.Root(), w.walk(dir, ".."))
		}
		_, _, err := w.f.Rename(t.Context(), &vfs.Cred{}, w.walk("early"), "beneath", w.f.Root(), "moved")
		assert.NoError(t, err)
	})
}

// TestMountRefused checks that objects on other mounts are rejected if the mount cannot be cloned.
func TestMountRefused(t *testing.T) {
	vfstest.NeedRoot(t)
	eachKind(t, func(t *testing.T, o Options) {
		checkCleanup(t)
		s := newExportedDir(t, "", o)
		w := &testFS{t, s, nil, user()}
		w.hostDir("d")
		w.hostDir("bound")
		w.hostDir("d/same")
		mountTmpfs(t, s.path("bound"), "")
		require.NoError(t, unix.Mount(s.path("d"), s.path("d", "same"), "", unix.MS_BIND, ""))
		t.Cleanup(func() { assert.NoError(t, unix.Unmount(s.path("d", "same"), unix.MNT_DETACH)) })
		w.f = s.openOnMount(t)
		for _, at := range [][]string{{"bound"}, {"d", "same"}} { // another file system, and the same one
			dir := w.walk(at[:len(at)-1]...)
			name := at[len(at)-1]
			_, _, _, err := w.f.Lookup(t.Context(), &w.c, dir, name)
			assert.ErrorIs(t, err, unix.EACCES, name)
			_, err = w.f.Rmdir(t.Context(), &vfs.Cred{}, dir, name)
			assert.ErrorIs(t, err, unix.EBUSY)
			_, _, _, err = w.f.ReadDir(t.Context(), &w.c, dir, 0, 0, true, func(e *vfs.Entry) bool {
				if string(e.Name) == name {
					assert.False(t, e.HasHandle)
					assert.False(t, e.Attr.OK)
				}
				return true
			})
			assert.NoError(t, err)
		}
	})
}

// openOnMount opens the export without a copy of its mount.
func (s *exportedDir) openOnMount(t *testing.T) (f *FS) {
	t.Helper()
	onThread(func() {
		require.NoError(t, dropCapability(unix.CAP_SYS_ADMIN))
		f = s.open(t)
	})
	require.Negative(t, f.tree)
	return f
}

// TestMovedOut checks that an object that another process moves out of the
// directory stays reachable by handle, as with knfsd, but does not lead further
// out.
func TestMovedOut(t *testing.T) {
	vfstest.NeedRoot(t)
	for name, open := range map[string]func(*exportedDir, *testing.T) *FS{
		"clone":    func(s *exportedDir, t *testing.T) *FS { return s.open(t) },
		"no clone": (*exportedDir).openOnMount,
	} {
		t.Run(name, func(t *testing.T) {
			checkCleanup(t)
			s := newExportedDir(t, "", Options{})
			w := &testFS{t, s, open(s, t), user()}
			w.hostDir("d/e")
			d, e := w.walk("d"), w.walk("d", "e")
			require.NoError(t, os.Rename(s.path("d"), s.path("..", "outside")))
			require.NoError(t, w.getattr(e))
			assert.Equal(t, e, w.lookup(d, "e"))
			for _, h := range []vfs.Handle{d, e} {
				_, _, _, err := w.f.Lookup(t.Context(), &vfs.Cred{}, h, "..")
				assert.ErrorIs(t, err, unix.EACCES)
				_, _, _, err = w.f.ReadDir(t.Context(), &vfs.Cred{}, h, 0, 0, true, func(e *vfs.Entry) bool {
					assert.Equal(t, string(e.Name) != "..", e.HasHandle, string(e.Name))
					return true
				})
				require.NoError(t, err)
			}
		})
	}
}

// TestDiskFull checks that a full disk is an error after a partial write, and that writing works
// again when there is space.
func TestDiskFull(t *testing.T) {
	vfstest.NeedRoot(t)
	w := smallTestFS(t, "size=1m,nr_inodes=50")
	m, err := w.f.Create(t.Context(), &w.c, w.f.Root(), "f", vfs.CreateHow{})
	require.NoError(t, err)
	big := make([]byte, 2<<20)
	for i := range big {
		big[i] = byte(i * 7)
	}
	n, _, wcc, err := w.f.Write(t.Context(), &w.c, m.Handle, big, 0, vfs.FileSync)
	require.ErrorIs(t, err, unix.ENOSPC)
	assert.Positive(t, n)
	assert.EqualValues(t, n, wcc.After.Size)
	got := make([]byte, len(big))
	r, eof, _, err := w.f.Read(t.Context(), &w.c, m.Handle, got, 0)
	require.NoError(t, err)
	assert.True(t, eof)
	assert.Equal(t, big[:n], got[:r])
	n, _, _, err = w.f.Write(t.Context(), &w.c, m.Handle, big, uint64(n), vfs.Unstable)
	assert.ErrorIs(t, err, unix.ENOSPC)
	assert.Zero(t, n)
	s, _, err := w.f.StatFS(t.Context(), &w.c, w.f.Root())
	require.NoError(t, err)
	assert.Zero(t, s.AvailBytes)

	_, err = w.f.Remove(t.Context(), &w.c, w.f.Root(), "f")
	require.NoError(t, err)
	s, _, err = w.f.StatFS(t.Context(), &w.c, w.f.Root())
	require.NoError(t, err)
	assert.EqualValues(t, 1<<20, s.AvailBytes, "the file is closed")
	for i := 0; err == nil; i++ {
		require.Less(t, i, 60)
		_, err = w.f.Mkdir(t.Context(), &w.c, w.f.Root(), strings.Repeat("d", i+1), vfs.SetAttr{})
	}
	assert.ErrorIs(t, err, unix.ENOSPC)
}

// TestReadOnly checks that a file system that becomes read-only rejects changes and serves the
// rest.
func TestReadOnly(t *testing.T) {
	vfstest.NeedRoot(t)
	w := smallTestFS(t, "size=1m")
	w.hostFile("f")
	require.NoError(t, os.Chmod(w.s.path("f"), 0o666))
	h := w.walk("f")
	require.NoError(t, unix.Mount("", w.s.dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, _, _, err := w.f.Write(t.Context(), &w.c, h, []byte("x"), 0, vfs.Unstable)
	assert.ErrorIs(t, err, unix.EROFS)
	_, err = w.f.Create(t.Context(), &w.c, w.f.Root(), "g", vfs.CreateHow{})
	assert.ErrorIs(t, err, unix.EROFS)
	_, err = w.f.Remove(t.Context(), &w.c, w.f.Root(), "f")
	assert.ErrorIs(t, err, unix.EROFS)
	mode := uint32(0o600)
	_, err = w.f.SetAttr(t.Context(), &vfs.Cred{}, h, vfs.SetAttr{Mode: &mode}, nil)
	assert.ErrorIs(t, err, unix.EROFS)
	got, _, err := w.f.Access(t.Context(), &w.c, h, vfs.AccessRead|vfs.AccessModify)
	require.NoError(t, err)
	assert.Equal(t, vfs.AccessRead, got)
	_, _, _, err = w.f.Read(t.Context(), &w.c, h, make([]byte, 1), 0)
	assert.NoError(t, err)
}

// TestRootRemoved checks that an export whose directory is removed is stale as
// a whole.
func TestRootRemoved(t *testing.T) {
	eachKind(t, func(t *testing.T, o Options) {
		w := newTestFS(t, o)
		require.NoError(t, os.Remove(w.s.dir))
		for range 2 {
			assert.ErrorIs(t, w.getattr(w.f.Root()), unix.ESTALE)
			_, err := w.f.Create(t.Context(), &w.c, w.f.Root(), "f", vfs.CreateHow{})
			assert.ErrorIs(t, err, unix.ESTALE)
		}
	})
}

// TestFileSizeLimit checks that RLIMIT_FSIZE causes an error at the client and
// does not kill the daemon.
func TestFileSizeLimit(t *testing.T) {
	w := newTestFS(t, tableKind())
	m, err := w.f.Create(t.Context(), &w.c, w.f.Root(), "f", vfs.CreateHow{})
	require.NoError(t, err)
	w.f.maxSize = 1000
	n, _, _, err := w.f.Write(t.Context(), &w.c, m.Handle, make([]byte, 10), 990, vfs.Unstable)
	require.NoError(t, err)
	assert.Equal(t, 10, n)
	_, _, _, err = w.f.Write(t.Context(), &w.c, m.Handle, make([]byte, 10), 991, vfs.Unstable)
	assert.ErrorIs(t, err, unix.EFBIG)
	size := uint64(1001)
	_, err = w.f.SetAttr(t.Context(), &w.c, m.Handle, vfs.SetAttr{Size: &size}, nil)
	assert.ErrorIs(t, err, unix.EFBIG)
}

// TestUmask checks that the process's umask does not change the mode that a client requests, and
// that a directory's default ACL does.
func TestUmask(t *testing.T) {
	old := unix.Umask(0o077)
	t.Cleanup(func() { unix.Umask(old) })
	w := newTestFS(t, tableKind())
	mode := uint32(0o666)
	all := vfs.SetAttr{Mode: &mode}
	made := func(name string, dir vfs.Handle) uint32 {
		m, err := w.f.Create(t.Context(), &w.c, dir, name, vfs.CreateHow{Attr: all})
		require.NoError(t, err)
		m2, err := w.f.Mkdir(t.Context(), &w.c, dir, name+"d", all)
		require.NoError(t, err)
		m3, err := w.f.Mknod(t.Context(), &w.c, dir, name+"f", vfs.TypeFIFO, vfs.Dev{}, all)
		require.NoError(t, err)
		assert.Equal(t, m.Attr.Mode, m2.Attr.Mode)
		assert.Equal(t, m.Attr.Mode, m3.Attr.Mode)
		return m.Attr.Mode
	}
	assert.EqualValues(t, 0o666, made("f", w.f.Root()))
	deflt := acl([3]uint32{aclUserObj, 6, aclNone}, [3]uint32{aclGroupObj, 4, aclNone}, [3]uint32{aclOther, 0, aclNone})
	require.NoError(t, unix.Setxattr(w.s.dir, "system.posix_acl_default", deflt, 0))
	assert.EqualValues(t, 0o640, made("g", w.f.Root()))
}

// TestOpenRefuses checks that Open explains its errors, and leaves nothing
// open.
func TestOpenRefuses(t *testing.T) {
	checkCleanup(t)
	s := newExportedDir(t, "", tableKind())
	require.NoError(t, os.WriteFile(s.path("file"), nil, 0o600))
	for _, dir := range []string{s.path("none"), s.path("file"), ""} {
		_, err := Open(dir, s.o)
		assert.ErrorContains(t, err, dir)
	}
	f := s.open(t)
	_, err := Open(s.dir, s.o)
	assert.ErrorContains(t, err, "in use")
	require.NoError(t, f.Close())
	require.NoError(t, f.Close(), "twice")
	// The directory may be given by a symbolic link.
	require.NoError(t, os.Symlink(s.dir, s.path("..", "link")))
	g, err := Open(s.path("..", "link"), s.o)
	require.NoError(t, err)
	assert.Equal(t, f.root.h, g.Root())
	require.NoError(t, g.Close())
}

// TestFSIDSeed checks that a seed gives a directory the same fsid on each device, and that other seeds
// and other directories have others.
func TestFSIDSeed(t *testing.T) {
	fsid := func(dir, seed string) uint64 {
		s := &exportedDir{dir: dir, o: Options{StateDir: t.TempDir(), FSIDSeed: seed}}
		f, err := Open(s.dir, s.o)
		require.NoError(t, err)
		defer f.Close()
		a, err := f.GetAttr(t.Context(), &vfs.Cred{}, f.Root())
		require.NoError(t, err)
		return a.FSID
	}
	a, b := t.TempDir(), t.TempDir()
	assert.Equal(t, fsid(a, "x"), fsid(a, "x"))
	assert.NotEqual(t, fsid(a, "x"), fsid(a, "y"))
	assert.NotEqual(t, fsid(a, "x"), fsid(b, "x"))
}
