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

// mustLstat returns the attributes of a file.
func mustLstat(t testing.TB, path string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(path, &st), path)
	return st
}

// listNames returns the names in a directory.
func listNames(t testing.TB, path string) (names []string) {
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
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE|os.O_EXCL)
	_, err := f.WriteString("mine")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	st := mustLstat(t, s.path("a"))
	assert.EqualValues(t, 0o644, st.Mode&0o7777)
	assert.True(t, time.Unix(st.Atim.Unix()).After(before), "the verifier was replaced by a time")
	_, err = os.OpenFile(m.path("a"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	assert.ErrorIs(t, err, os.ErrExist)
	assertContent(t, m.path("a"), []byte("mine"))
	writeFile(t, s.path("b"), []byte("theirs"))
	_, err = os.OpenFile(m.path("b"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	assert.ErrorIs(t, err, os.ErrExist)
	require.NoError(t, unix.Mknod(m.path("c"), unix.S_IFREG|0o640, 0))
	assert.ErrorIs(t, unix.Mknod(m.path("c"), unix.S_IFREG|0o640, 0), unix.EEXIST)
}

// TestKinds checks that objects of all types are as the server has them.
func TestKinds(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.Mkdir(m.path("dir"), 0o1750))
	require.NoError(t, os.Symlink("a/\xff/target", m.path("link")))
	require.NoError(t, unix.Mkfifo(m.path("fifo"), 0o640))
	require.NoError(t, unix.Mknod(m.path("socket"), unix.S_IFSOCK|0o600, 0))
	require.NoError(t, unix.Mknod(m.path("block"), unix.S_IFBLK|0o600, int(unix.Mkdev(300, 70000))))
	require.NoError(t, unix.Mknod(m.path("char"), unix.S_IFCHR|0o600, int(unix.Mkdev(4095, 0xfffff))))
	writeFile(t, m.path("file"), []byte("content"))
	for _, name := range listNames(t, m.dir) {
		here, there := mustLstat(t, m.path(name)), mustLstat(t, s.path(name))
		assert.Equal(t, there.Ino, here.Ino, name)
		assert.Equal(t, there.Mode, here.Mode, name)
		assert.Equal(t, there.Nlink, here.Nlink, name)
		assert.Equal(t, there.Size, here.Size, name)
		assert.Equal(t, there.Blocks, here.Blocks, name)
		assert.Equal(t, there.Rdev, here.Rdev, name)
		assert.Equal(t, there.Mtim, here.Mtim, name)
		assert.Equal(t, there.Ctim, here.Ctim, name)
	}
	assert.Len(t, listNames(t, m.dir), 7)
	target, err := os.Readlink(m.path("link"))
	require.NoError(t, err)
	assert.Equal(t, "a/\xff/target", target)
}

// TestNames checks names that are not text, and long names.
func TestNames(t *testing.T) {
	s, m := newMount(t)
	for _, name := range []string{"\xff\xfe", "a b", "\n", "ä", strings.Repeat("x", 255), "..."} {
		writeFile(t, m.path(name), []byte(name))
		assertContent(t, s.path(name), []byte(name))
		assert.Contains(t, listNames(t, m.dir), name)
	}
	_, err := os.Stat(m.path(strings.Repeat("x", 256)))
	assert.ErrorIs(t, err, unix.ENAMETOOLONG)
	_, err = os.Create(m.path(strings.Repeat("x", 256)))
	assert.ErrorIs(t, err, unix.ENAMETOOLONG)
	assert.ErrorIs(t, os.Symlink(strings.Repeat("y", 5000), m.path("l")), unix.ENAMETOOLONG)
}

// TestLinks checks several names of one file.
func TestLinks(t *testing.T) {
	s, m := newMount(t)
	writeFile(t, m.path("a"), []byte("x"))
	require.NoError(t, os.Mkdir(m.path("d"), 0o755))
	require.NoError(t, os.Link(m.path("a"), m.path("d/b")))
	assert.EqualValues(t, 2, mustLstat(t, m.path("a")).Nlink)
	assert.Equal(t, mustLstat(t, m.path("a")), mustLstat(t, m.path("d/b")))
	assert.Equal(t, mustLstat(t, s.path("a")).Ino, mustLstat(t, s.path("d/b")).Ino)
	require.NoError(t, os.Remove(m.path("a")))
	assert.EqualValues(t, 1, mustLstat(t, m.path("d/b")).Nlink)
	assert.ErrorIs(t, os.Link(m.path("d"), m.path("e")), os.ErrPermission)
	assert.ErrorIs(t, os.Link(m.path("d/b"), m.path("d")), os.ErrExist)
	assertContent(t, m.path("d/b"), []byte("x"))
}

// TestRename checks renames of files and directories.
func TestRename(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.MkdirAll(m.path("d/e"), 0o755))
	writeFile(t, m.path("a"), []byte("a"))
	writeFile(t, m.path("d/b"), []byte("b"))
	before := mustLstat(t, m.path("a"))
	require.NoError(t, os.Rename(m.path("a"), m.path("d/b")))
	assertContent(t, s.path("d/b"), []byte("a"))
	after := mustLstat(t, m.path("d/b"))
	assert.Equal(t, before.Ino, after.Ino)
	assert.Equal(t, mustLstat(t, s.path("d/b")).Ctim, after.Ctim)
	assert.NoFileExists(t, m.path("a"))
	require.NoError(t, os.Rename(m.path("d"), m.path("f")))
	assertContent(t, m.path("f/b"), []byte("a"))
	assert.ErrorIs(t, os.Rename(m.path("f"), m.path("f/e/g")), unix.EINVAL)
	assert.ErrorIs(t, syscall.Rename(m.path("f/b"), m.path("f/e")), unix.EISDIR)
	assert.ErrorIs(t, syscall.Rename(m.path("f/e"), m.path("f/b")), unix.ENOTDIR)
	assert.ErrorIs(t, os.Remove(m.path("f")), unix.ENOTEMPTY)
	writeFile(t, m.path("x"), nil)
	writeFile(t, m.path("y"), nil)
	for _, flag := range []uint{unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE, unix.RENAME_WHITEOUT} {
		err := unix.Renameat2(unix.AT_FDCWD, m.path("x"), unix.AT_FDCWD, m.path("z"), flag)
		if flag == unix.RENAME_EXCHANGE {
			err = unix.Renameat2(unix.AT_FDCWD, m.path("x"), unix.AT_FDCWD, m.path("y"), flag)
		}
		assert.ErrorIs(t, err, unix.EINVAL, "flag %d", flag)
	}
}

// hiddenFiles returns the names of removed open files at the server.
func (s *testServer) hiddenFiles() []string {
	names, err := filepath.Glob(s.path(".nfs*"))
	require.NoError(s.t, err)
	return names
}

// awaitNoHiddenFiles waits until the server has no hidden files any more: close
// does not wait until the kernel has released the file.
func (s *testServer) awaitNoHiddenFiles() {
	s.t.Helper()
	assert.Eventually(s.t, func() bool { return len(s.hiddenFiles()) == 0 }, 10*time.Second, time.Millisecond)
}

// TestUnlinkOpen checks that an open file whose name is removed stays until it
// is closed.
func TestUnlinkOpen(t *testing.T) {
	s, m := newMount(t)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	_, err := f.WriteString("still here")
	require.NoError(t, err)
	require.NoError(t, os.Remove(m.path("a")))
	assert.NoFileExists(t, m.path("a"))
	require.Len(t, s.hiddenFiles(), 1)
	name := filepath.Base(s.hiddenFiles()[0])
	assert.Regexp(t, fmt.Sprintf(`^\.nfs%016x[0-9a-f]{8}$`, mustLstat(t, s.hiddenFiles()[0]).Ino), name)
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	assert.Zero(t, st.Nlink)
	_, err = f.WriteAt([]byte("STILL"), 0)
	require.NoError(t, err)
	got := make([]byte, 20)
	n, _ := f.ReadAt(got, 0)
	assert.Equal(t, "STILL here", string(got[:n]))
	assert.ErrorIs(t, os.Remove(m.path(name)), unix.EBUSY, "the attribute follows the file")
	writeFile(t, m.path("a"), []byte("another"))
	require.NoError(t, f.Close())
	s.awaitNoHiddenFiles()
	assertContent(t, m.path("a"), []byte("another"))
	assert.Equal(t, []string{"a"}, listNames(t, m.dir))
}

// TestRenameOverOpen checks a rename that replaces an open file.
func TestRenameOverOpen(t *testing.T) {
	s, m := newMount(t)
	writeFile(t, m.path("old"), []byte("old"))
	writeFile(t, m.path("new"), []byte("new"))
	f := openAt(t, m.path("old"), os.O_RDONLY)
	g := openAt(t, m.path("old"), os.O_RDONLY)
	require.NoError(t, os.Rename(m.path("new"), m.path("old")))
	assertContent(t, m.path("old"), []byte("new"))
	got := make([]byte, 10)
	n, _ := f.ReadAt(got, 0)
	assert.Equal(t, "old", string(got[:n]))
	require.NoError(t, f.Close())
	require.Len(t, s.hiddenFiles(), 1)
	require.NoError(t, g.Close())
	s.awaitNoHiddenFiles()
	// If the server refuses a rename, the name is restored.
	f = openAt(t, m.path("old"), os.O_RDONLY)
	require.NoError(t, os.Remove(s.path("old")))
	writeFile(t, s.path("kept"), nil)
	writeFile(t, m.path("x"), nil)
	require.NoError(t, os.Remove(s.path("x")))
	h := openAt(t, m.path("kept"), os.O_RDONLY)
	assert.Error(t, os.Rename(m.path("x"), m.path("kept")))
	assert.FileExists(t, s.path("kept"))
	require.NoError(t, h.Close())
	require.NoError(t, f.Close())
	assert.FileExists(t, m.path("kept"))
}

// TestUnlinkOpenLink checks that both names of an open file can be removed.
func TestUnlinkOpenLink(t *testing.T) {
	s, m := newMount(t)
	writeFile(t, m.path("a"), []byte("x"))
	require.NoError(t, os.Link(m.path("a"), m.path("b")))
	f := openAt(t, m.path("a"), os.O_RDONLY)
	require.NoError(t, os.Remove(m.path("b")))
	require.NoError(t, os.Remove(m.path("a")))
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	assert.Zero(t, st.Nlink)
	assert.Len(t, s.hiddenFiles(), 2)
	require.NoError(t, f.Close())
	s.awaitNoHiddenFiles()
}

// TestUnlinkOpenUnmount checks that the end of a mount removes hidden files.
func TestUnlinkOpenUnmount(t *testing.T) {
	s, m := newMount(t)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	_, err := f.WriteString("gone")
	require.NoError(t, err)
	require.NoError(t, os.Remove(m.path("a")))
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
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	g := openAt(t, m.path("b"), os.O_RDWR|os.O_CREATE)
	_, err := g.WriteString("written")
	require.NoError(t, err)
	require.NoError(t, os.Remove(m.path("a")))
	require.NoError(t, unix.Unmount(m.dir, unix.MNT_DETACH|unix.MNT_FORCE))
	_, err = f.WriteString("not any more")
	assert.ErrorIs(t, err, unix.ENOTCONN)
	m.Wait()
	assert.Empty(t, s.hiddenFiles())
	assertContent(t, s.path("b"), []byte("written"))
}

// TestAbsent checks that a node remembers missing names under one grant only.
func TestAbsent(t *testing.T) {
	var n node
	assert.Zero(t, n.recordAbsent("a", sighting{began: 9}), "no delegation")
	assert.False(t, n.isKnownAbsent("a", 0))
	n.grant = 5
	assert.Zero(t, n.recordAbsent("a", sighting{began: 4}), "seen before the grant")
	assert.EqualValues(t, 5, n.recordAbsent("a", sighting{began: 5}))
	assert.True(t, n.isKnownAbsent("a", 5))
	assert.False(t, n.isKnownAbsent("a", 0))
	assert.False(t, n.isKnownAbsent("b", 5))
	n.forgetAbsent("a")
	assert.False(t, n.isKnownAbsent("a", 5))

	n.changedAt = 7
	assert.Zero(t, n.recordAbsent("a", sighting{began: 7}), "perhaps seen before a change of ours")
	assert.EqualValues(t, 5, n.recordAbsent("a", sighting{began: 7, made: true}), "removed by that change")
	n.grant = 8
	assert.False(t, n.isKnownAbsent("a", 8), "seen under another grant")
	assert.EqualValues(t, 8, n.recordAbsent("b", sighting{began: 8}))
	assert.False(t, n.isKnownAbsent("a", 8))
	assert.True(t, n.isKnownAbsent("b", 8))
}
