package workload

import (
	"os"
	"syscall"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// testSpecial makes objects other than files, directories and links, and does
// operations other than reading and writing. It needs root.
func testSpecial(t *T, dir string) {
	p := pathIn(dir)
	nodes := map[string]struct {
		mode uint32
		dev  uint64
	}{
		"fifo":   {unix.S_IFIFO | 0o640, 0},
		"socket": {unix.S_IFSOCK | 0o755, 0},
		"char":   {unix.S_IFCHR | 0o600, unix.Mkdev(1, 3)},
		"block":  {unix.S_IFBLK | 0o660, unix.Mkdev(259, 65537)},
	}
	for name, n := range nodes {
		require.NoError(t, unix.Mknod(p(name), n.mode, int(n.dev)))
		require.NoError(t, unix.Chmod(p(name), n.mode&permissions)) // independent of the umask
		s := lstat(t, p(name))
		assert.Equal(t, n.mode, s.Mode, name)
		assert.Equal(t, n.dev, s.Rdev, name)
	}
	assert.ErrorIs(t, unix.Mknod(p("fifo"), unix.S_IFIFO|0o600, 0), syscall.EEXIST)

	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &fs))
	assert.Positive(t, fs.Blocks)
	assert.Positive(t, fs.Bavail)
	assert.Positive(t, fs.Files)
	assert.EqualValues(t, 255, fs.Namelen)

	testUnlinked(t, p("unlinked"))
	assert.NotContains(t, listNames(t, dir), "unlinked")
	testMapped(t, p("mapped"))
	testAppends(t, p("appended"))
}

// testUnlinked uses a file without a name.
func testUnlinked(t *T, path string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	_, err = f.WriteAt([]byte("still here"), 100)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	dropCache(t, f)
	got := make([]byte, 10)
	_, err = f.ReadAt(got, 100)
	require.NoError(t, err)
	assert.Equal(t, "still here", string(got))
	require.NoError(t, f.Close())
}

// testMapped writes through a mapping.
func testMapped(t *T, path string) {
	want := patternBytes(8, 10000)
	createFile(t, path, want)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, len(want), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	assert.Empty(t, findDifference(want, m))
	copy(m[4090:], "across a page")
	copy(want[4090:], "across a page")
	require.NoError(t, unix.Msync(m, unix.MS_SYNC))
	require.NoError(t, unix.Munmap(m))
	checkContent(t, path, want)
}

// testAppends makes two descriptors append alternately.
func testAppends(t *T, path string) {
	var want string
	var fds [2]*os.File
	for i := range fds {
		var err error
		fds[i], err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		require.NoError(t, err)
	}
	for i := range 10 {
		piece := string(patternBytes(uint64(i), 333))
		want += piece
		_, err := fds[i%2].WriteString(piece)
		require.NoError(t, err)
	}
	for _, f := range fds {
		require.NoError(t, f.Close())
	}
	checkContent(t, path, []byte(want))
}

// testErrors does invalid operations, and asserts their errors.
func testErrors(t *T, dir string) {
	p := pathIn(dir)
	createFile(t, p("file"), nil)
	require.NoError(t, os.MkdirAll(p("dir/sub"), 0o755))
	_, err := os.OpenFile(p("file"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	assert.ErrorIs(t, err, syscall.EEXIST)
	_, err = os.Open(p("none"))
	assert.ErrorIs(t, err, syscall.ENOENT)
	_, err = os.Open(p("file/below"))
	assert.ErrorIs(t, err, syscall.ENOTDIR)
	_, err = os.OpenFile(p("dir"), os.O_WRONLY, 0)
	assert.ErrorIs(t, err, syscall.EISDIR)
	assert.ErrorIs(t, os.Mkdir(p("dir"), 0o755), syscall.EEXIST)
	assert.ErrorIs(t, unix.Rmdir(p("dir")), syscall.ENOTEMPTY)
	assert.ErrorIs(t, unix.Rmdir(p("file")), syscall.ENOTDIR)
	assert.ErrorIs(t, unix.Unlink(p("dir")), syscall.EISDIR)
	assert.ErrorIs(t, unix.Unlink(p("none")), syscall.ENOENT)
	_, err = os.Readlink(p("file"))
	assert.ErrorIs(t, err, syscall.EINVAL)
	require.NoError(t, unix.Rmdir(p("dir/sub")))
	require.NoError(t, unix.Rmdir(p("dir")))
	_, err = os.Lstat(p("dir"))
	assert.ErrorIs(t, err, syscall.ENOENT)
}
