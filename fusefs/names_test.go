package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// lstat returns the attributes of a file.
func lstat(t testing.TB, path string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(path, &st), path)
	return st
}

// list returns the names in a directory.
func list(t testing.TB, path string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestExclusive checks the exclusive creation of files.
func TestExclusive(t *testing.T) {
	s, m := newMount(t)
	before := time.Now().Add(-time.Minute)
	f := open(t, m.file("a"), os.O_RDWR|os.O_CREATE|os.O_EXCL)
	_, err := f.WriteString("mine")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	st := lstat(t, s.file("a"))
	assert.EqualValues(t, 0o644, st.Mode&0o7777)
	assert.True(t, time.Unix(st.Atim.Unix()).After(before), "the verifier was replaced by a time")
	_, err = os.OpenFile(m.file("a"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	assert.ErrorIs(t, err, os.ErrExist)
	holds(t, m.file("a"), []byte("mine"))
	put(t, s.file("b"), []byte("theirs"))
	_, err = os.OpenFile(m.file("b"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	assert.ErrorIs(t, err, os.ErrExist)
	require.NoError(t, unix.Mknod(m.file("c"), unix.S_IFREG|0o640, 0))
	assert.ErrorIs(t, unix.Mknod(m.file("c"), unix.S_IFREG|0o640, 0), unix.EEXIST)
}

// TestKinds checks that objects of all types are as the server has them.
func TestKinds(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.Mkdir(m.file("dir"), 0o1750))
	require.NoError(t, os.Symlink("a/\xff/target", m.file("link")))
	require.NoError(t, unix.Mkfifo(m.file("fifo"), 0o640))
	require.NoError(t, unix.Mknod(m.file("socket"), unix.S_IFSOCK|0o600, 0))
	require.NoError(t, unix.Mknod(m.file("block"), unix.S_IFBLK|0o600, int(unix.Mkdev(300, 70000))))
	require.NoError(t, unix.Mknod(m.file("char"), unix.S_IFCHR|0o600, int(unix.Mkdev(4095, 0xfffff))))
	put(t, m.file("file"), []byte("content"))
	for _, name := range list(t, m.dir) {
		here, there := lstat(t, m.file(name)), lstat(t, s.file(name))
		assert.Equal(t, there.Ino, here.Ino, name)
		assert.Equal(t, there.Mode, here.Mode, name)
		assert.Equal(t, there.Nlink, here.Nlink, name)
		assert.Equal(t, there.Size, here.Size, name)
		assert.Equal(t, there.Blocks, here.Blocks, name)
		assert.Equal(t, there.Rdev, here.Rdev, name)
		assert.Equal(t, there.Mtim, here.Mtim, name)
		assert.Equal(t, there.Ctim, here.Ctim, name)
	}
	assert.Len(t, list(t, m.dir), 7)
	target, err := os.Readlink(m.file("link"))
	require.NoError(t, err)
	assert.Equal(t, "a/\xff/target", target)
}

// TestNames checks names that are not text, and long names.
func TestNames(t *testing.T) {
	s, m := newMount(t)
	for _, name := range []string{"\xff\xfe", "a b", "\n", "ä", strings.Repeat("x", 255), "..."} {
		put(t, m.file(name), []byte(name))
		holds(t, s.file(name), []byte(name))
		assert.Contains(t, list(t, m.dir), name)
	}
	_, err := os.Stat(m.file(strings.Repeat("x", 256)))
	assert.ErrorIs(t, err, unix.ENAMETOOLONG)
	_, err = os.Create(m.file(strings.Repeat("x", 256)))
	assert.ErrorIs(t, err, unix.ENAMETOOLONG)
	assert.ErrorIs(t, os.Symlink(strings.Repeat("y", 5000), m.file("l")), unix.ENAMETOOLONG)
}

// TestLinks checks several names of one file.
func TestLinks(t *testing.T) {
	s, m := newMount(t)
	put(t, m.file("a"), []byte("x"))
	require.NoError(t, os.Mkdir(m.file("d"), 0o755))
	require.NoError(t, os.Link(m.file("a"), m.file("d/b")))
	assert.EqualValues(t, 2, lstat(t, m.file("a")).Nlink)
	assert.Equal(t, lstat(t, m.file("a")), lstat(t, m.file("d/b")))
	assert.Equal(t, lstat(t, s.file("a")).Ino, lstat(t, s.file("d/b")).Ino)
	require.NoError(t, os.Remove(m.file("a")))
	assert.EqualValues(t, 1, lstat(t, m.file("d/b")).Nlink)
	assert.ErrorIs(t, os.Link(m.file("d"), m.file("e")), os.ErrPermission)
	assert.ErrorIs(t, os.Link(m.file("d/b"), m.file("d")), os.ErrExist)
	holds(t, m.file("d/b"), []byte("x"))
}

// TestRename checks renames of files and directories.
func TestRename(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.MkdirAll(m.file("d/e"), 0o755))
	put(t, m.file("a"), []byte("a"))
	put(t, m.file("d/b"), []byte("b"))
	before := lstat(t, m.file("a"))
	require.NoError(t, os.Rename(m.file("a"), m.file("d/b")))
	holds(t, s.file("d/b"), []byte("a"))
	after := lstat(t, m.file("d/b"))
	assert.Equal(t, before.Ino, after.Ino)
	assert.Equal(t, lstat(t, s.file("d/b")).Ctim, after.Ctim)
	assert.NoFileExists(t, m.file("a"))
	require.NoError(t, os.Rename(m.file("d"), m.file("f")))
	holds(t, m.file("f/b"), []byte("a"))
	assert.ErrorIs(t, os.Rename(m.file("f"), m.file("f/e/g")), unix.EINVAL)
	assert.ErrorIs(t, syscall.Rename(m.file("f/b"), m.file("f/e")), unix.EISDIR)
	assert.ErrorIs(t, syscall.Rename(m.file("f/e"), m.file("f/b")), unix.ENOTDIR)
	assert.ErrorIs(t, os.Remove(m.file("f")), unix.ENOTEMPTY)
	put(t, m.file("x"), nil)
	put(t, m.file("y"), nil)
	for _, flag := range []uint{unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE, unix.RENAME_WHITEOUT} {
		err := unix.Renameat2(unix.AT_FDCWD, m.file("x"), unix.AT_FDCWD, m.file("z"), flag)
		if flag == unix.RENAME_EXCHANGE {
			err = unix.Renameat2(unix.AT_FDCWD, m.file("x"), unix.AT_FDCWD, m.file("y"), flag)
		}
		assert.ErrorIs(t, err, unix.EINVAL, "flag %d", flag)
	}
}

// hiddenFiles returns the names of removed open files at the server.
func (s *server) hiddenFiles() []string {
	names, err := filepath.Glob(s.file(".nfs*"))
	require.NoError(s.t, err)
	return names
}

// gone waits until the server has no hidden files any more: close does not wait
// until the kernel has released the file.
func (s *server) gone() {
	s.t.Helper()
	assert.Eventually(s.t, func() bool { return len(s.hiddenFiles()) == 0 }, 10*time.Second, time.Millisecond)
}

// TestUnlinkOpen checks that an open file whose name is removed stays until it
// is closed.
func TestUnlinkOpen(t *testing.T) {
	s, m := newMount(t)
	f := open(t, m.file("a"), os.O_RDWR|os.O_CREATE)
	_, err := f.WriteString("still here")
	require.NoError(t, err)
	require.NoError(t, os.Remove(m.file("a")))
	assert.NoFileExists(t, m.file("a"))
	require.Len(t, s.hiddenFiles(), 1)
	name := filepath.Base(s.hiddenFiles()[0])
	assert.Regexp(t, fmt.Sprintf(`^\.nfs%016x[0-9a-f]{8}$`, lstat(t, s.hiddenFiles()[0]).Ino), name)
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	assert.Zero(t, st.Nlink)
	_, err = f.WriteAt([]byte("STILL"), 0)
	require.NoError(t, err)
	got := make([]byte, 20)
	n, _ := f.ReadAt(got, 0)
	assert.Equal(t, "STILL here", string(got[:n]))
	assert.ErrorIs(t, os.Remove(m.file(name)), unix.EBUSY, "the attribute follows the file")
	put(t, m.file("a"), []byte("another"))
	require.NoError(t, f.Close())
	s.gone()
	holds(t, m.file("a"), []byte("another"))
	assert.Equal(t, []string{"a"}, list(t, m.dir))
}

// TestRenameOverOpen checks a rename that replaces an open file.
func TestRenameOverOpen(t *testing.T) {
	s, m := newMount(t)
	put(t, m.file("old"), []byte("old"))
	put(t, m.file("new"), []byte("new"))
	f := open(t, m.file("old"), os.O_RDONLY)
	g := open(t, m.file("old"), os.O_RDONLY)
	require.NoError(t, os.Rename(m.file("new"), m.file("old")))
	holds(t, m.file("old"), []byte("new"))
	got := make([]byte, 10)
	n, _ := f.ReadAt(got, 0)
	assert.Equal(t, "old", string(got[:n]))
	require.NoError(t, f.Close())
	require.Len(t, s.hiddenFiles(), 1)
	require.NoError(t, g.Close())
	s.gone()
	// If the server refuses a rename, the name is restored.
	f = open(t, m.file("old"), os.O_RDONLY)
	require.NoError(t, os.Remove(s.file("old")))
	put(t, s.file("kept"), nil)
	put(t, m.file("x"), nil)
	require.NoError(t, os.Remove(s.file("x")))
	h := open(t, m.file("kept"), os.O_RDONLY)
	assert.Error(t, os.Rename(m.file("x"), m.file("kept")))
	assert.FileExists(t, s.file("kept"))
	require.NoError(t, h.Close())
	require.NoError(t, f.Close())
	assert.FileExists(t, m.file("kept"))
}

// TestUnlinkOpenLink checks that both names of an open file can be removed.
func TestUnlinkOpenLink(t *testing.T) {
	s, m := newMount(t)
	put(t, m.file("a"), []byte("x"))
	require.NoError(t, os.Link(m.file("a"), m.file("b")))
	f := open(t, m.file("a"), os.O_RDONLY)
	require.NoError(t, os.Remove(m.file("b")))
	require.NoError(t, os.Remove(m.file("a")))
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	assert.Zero(t, st.Nlink)
	assert.Len(t, s.hiddenFiles(), 2)
	require.NoError(t, f.Close())
	s.gone()
}

// TestUnlinkOpenUnmount checks that the end of a mount removes hidden files.
func TestUnlinkOpenUnmount(t *testing.T) {
	s, m := newMount(t)
	f := open(t, m.file("a"), os.O_RDWR|os.O_CREATE)
	_, err := f.WriteString("gone")
	require.NoError(t, err)
	require.NoError(t, os.Remove(m.file("a")))
	require.Len(t, s.hiddenFiles(), 1)
	assert.ErrorContains(t, m.Unmount(), "in use")
	require.NoError(t, unix.Unmount(m.dir, unix.MNT_DETACH))
	_, err = f.WriteString("not yet")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	m.Wait()
	assert.Empty(t, s.hiddenFiles())
}

// TestAbort checks a forced unmount while files are open and data are under
// way.
func TestAbort(t *testing.T) {
	s, m := newMount(t)
	f := open(t, m.file("a"), os.O_RDWR|os.O_CREATE)
	g := open(t, m.file("b"), os.O_RDWR|os.O_CREATE)
	_, err := g.WriteString("written")
	require.NoError(t, err)
	require.NoError(t, os.Remove(m.file("a")))
	require.NoError(t, unix.Unmount(m.dir, unix.MNT_DETACH|unix.MNT_FORCE))
	_, err = f.WriteString("not any more")
	assert.ErrorIs(t, err, unix.ENOTCONN)
	m.Wait()
	assert.Empty(t, s.hiddenFiles())
	holds(t, s.file("b"), []byte("written"))
}

// TestAbsent checks that a node remembers missing names under one grant only.
func TestAbsent(t *testing.T) {
	var n node
	assert.Zero(t, n.lacks("a", sight{began: 9}), "no delegation")
	assert.False(t, n.lacking("a", 0))
	n.grant = 5
	assert.Zero(t, n.lacks("a", sight{began: 4}), "seen before the grant")
	assert.EqualValues(t, 5, n.lacks("a", sight{began: 5}))
	assert.True(t, n.lacking("a", 5))
	assert.False(t, n.lacking("a", 0))
	assert.False(t, n.lacking("b", 5))
	n.mayHave("a")
	assert.False(t, n.lacking("a", 5))

	n.changed = 7
	assert.Zero(t, n.lacks("a", sight{began: 7}), "perhaps seen before a change of ours")
	assert.EqualValues(t, 5, n.lacks("a", sight{began: 7, made: true}), "removed by that change")
	n.grant = 8
	assert.False(t, n.lacking("a", 8), "seen under another grant")
	assert.EqualValues(t, 8, n.lacks("b", sight{began: 8}))
	assert.False(t, n.lacking("a", 8))
	assert.True(t, n.lacking("b", 8))
}
