package clusterfs

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/nstest"
)

func TestMain(m *testing.M) {
	RunCommand()
	os.Exit(nstest.Main(m.Run))
}

// startPair returns an engine without caches, and two hosts' mounts.
func startPair(t *testing.T, o Options) (e *FileSystem, a, b *Host) {
	t.Helper()
	o.Cache = -1
	e = Start(t, o)
	return e, e.Mount("a"), e.Mount("b")
}

// assertSameTree checks that a mount shows what the backing directory has.
func assertSameTree(t *testing.T, want, got string) {
	t.Helper()
	assert.Equal(t, describeTree(t, want), describeTree(t, got))
}

// describeTree returns a line for each object.
func describeTree(t *testing.T, dir string) (lines []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		require.NoError(t, err)
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(path, &st))
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		content := ""
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			content = fmt.Sprintf("%x", shortHash(b))
		case unix.S_IFLNK:
			content, err = os.Readlink(path)
			require.NoError(t, err)
		}
		lines = append(lines, fmt.Sprintln(name, st.Ino, st.Mode, st.Nlink, st.Uid, st.Gid, st.Size, st.Rdev, st.Blocks, st.Mtim, st.Ctim, content))
		return nil
	}))
	return lines
}

// TestNames checks that changes of names through one mount are seen through the other,
// and are those of the backing directory.
func TestNames(t *testing.T) {
	e, a, b := startPair(t, Options{})
	at := func(h *Host, name string) string { return filepath.Join(h.Dir, name) }
	require.NoError(t, os.Mkdir(at(a, "dir"), 0o750))
	require.NoError(t, os.WriteFile(at(b, "dir/file"), []byte("content"), 0o640))
	require.NoError(t, os.Symlink("dir/file", at(a, "symlink")))
	require.NoError(t, os.Link(at(b, "dir/file"), at(b, "link")))
	require.NoError(t, unix.Mkfifo(at(a, "fifo"), 0o600))
	require.NoError(t, os.Rename(at(a, "dir"), at(a, "moved")))
	assertSameTree(t, e.Backing, a.Dir)
	assertSameTree(t, e.Backing, b.Dir)

	require.NoError(t, os.WriteFile(at(a, "other"), nil, 0o600))
	require.NoError(t, os.Rename(at(a, "other"), at(a, "moved/file")), "over a file")
	assert.ErrorIs(t, unix.Renameat2(unix.AT_FDCWD, at(a, "link"), unix.AT_FDCWD, at(a, "symlink"), unix.RENAME_NOREPLACE), unix.EEXIST)
	assert.ErrorIs(t, os.Remove(at(b, "moved")), unix.ENOTEMPTY)
	require.NoError(t, os.RemoveAll(at(b, "moved")))
	_, err := os.Stat(at(a, "moved/file"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	assertSameTree(t, e.Backing, a.Dir)
	assertSameTree(t, e.Backing, b.Dir)
}

// TestData checks writes, holes, truncation, direct I/O and fsync.
func TestData(t *testing.T) {
	e, a, b := startPair(t, Options{})
	data := make([]byte, 1<<20+77)
	rand.Read(data)
	f, err := os.Create(filepath.Join(a.Dir, "file"))
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt(data, 10<<20)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	got, err := os.ReadFile(filepath.Join(b.Dir, "file"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(append(make([]byte, 10<<20), data...), got))
	start, err := f.Seek(5, unix.SEEK_DATA)
	require.NoError(t, err)
	assert.Greater(t, start, int64(9<<20), "a hole comes first")

	require.NoError(t, f.Truncate(3))
	require.NoError(t, f.Truncate(4096))
	require.NoError(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20))
	assertSameTree(t, e.Backing, a.Dir)

	direct, err := os.OpenFile(filepath.Join(b.Dir, "file"), os.O_RDWR|unix.O_DIRECT, 0)
	require.NoError(t, err)
	defer direct.Close()
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer unix.Munmap(page)
	copy(page, data)
	_, err = direct.WriteAt(page, 0)
	require.NoError(t, err)
	_, err = direct.ReadAt(page, 0)
	require.NoError(t, err)
	assert.Equal(t, data[:4096], page)
	assertSameTree(t, e.Backing, a.Dir)
}

// TestOpenRemovedFile checks that an open file lasts after its last name, and that
// the space is then free.
func TestOpenRemovedFile(t *testing.T) {
	e, a, b := startPair(t, Options{})
	f, err := os.Create(filepath.Join(a.Dir, "file"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Remove(filepath.Join(b.Dir, "file")))
	_, err = f.Write([]byte("still there"))
	require.NoError(t, err)
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0)
	assert.Equal(t, "still there", string(buf[:n]))
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	assert.Zero(t, st.Nlink)
	assertSameTree(t, e.Backing, a.Dir)
}

// TestAttributes checks owners, modes and times, by users with and without rights.
func TestAttributes(t *testing.T) {
	e, a, _ := startPair(t, Options{})
	file := filepath.Join(a.Dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Chown(file, 1000, 2000))
	require.NoError(t, os.Chmod(file, 0o640|os.ModeSetgid))
	require.NoError(t, os.Chtimes(file, time.Unix(1, 5), time.Unix(2, 7)))
	require.NoError(t, os.Mkdir(filepath.Join(a.Dir, "shared"), 0))
	require.NoError(t, os.Chown(filepath.Join(a.Dir, "shared"), 0, 3000))
	require.NoError(t, os.Chmod(filepath.Join(a.Dir, "shared"), 0o777|os.ModeSetgid))
	assertSameTree(t, e.Backing, a.Dir)

	asUser(t, 1001, func() {
		assert.ErrorIs(t, unix.Chmod(file, 0o777), unix.EPERM)
		_, err := unix.Open(file, unix.O_RDONLY, 0)
		assert.ErrorIs(t, err, unix.EACCES)
		assert.NoError(t, unix.Mkdir(filepath.Join(a.Dir, "shared/dir"), 0o755))
	})
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(filepath.Join(e.Backing, "shared/dir"), &st))
	assert.Equal(t, [3]uint32{1001, 3000, unix.S_IFDIR | unix.S_ISGID | 0o755}, [3]uint32{st.Uid, st.Gid, st.Mode})
	assertSameTree(t, e.Backing, a.Dir)

	var want, got unix.Statfs_t
	require.NoError(t, unix.Statfs(e.Backing, &want))
	require.NoError(t, unix.Statfs(a.Dir, &got))
	assert.Equal(t, want.Blocks, got.Blocks)
	assert.EqualValues(t, unix.FUSE_SUPER_MAGIC, got.Type)
}

// asUser calls f in a thread with another user's rights.
func asUser(t *testing.T, uid int, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // permanently: the thread exits with the goroutine
		_ = unix.Setfsgid(uid)
		err := unix.Setfsuid(uid)
		f()
		done <- err
	}()
	require.NoError(t, <-done)
}

// TestDirectory checks that a large directory lists each name once, and that a
// listing which one host has begun can be continued by the other.
func TestDirectory(t *testing.T) {
	e, a, b := startPair(t, Options{})
	const n = 10_000
	for i := range n {
		require.NoError(t, os.WriteFile(filepath.Join(e.Backing, fmt.Sprint("name", i)), nil, 0o600))
	}
	first, cookie := list(t, a.Dir, 0, n/2)
	second, _ := list(t, b.Dir, cookie, 2*n)
	names := append(first, second...)
	slices.Sort(names)
	assert.Len(t, slices.Compact(names), n+2, "with . and ..")
	assert.Len(t, names, n+2)
}

// list lists at most n names after a cookie, and returns the cookie of the last.
func list(t *testing.T, dir string, cookie int64, n int) (names []string, last int64) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, err = unix.Seek(fd, cookie, unix.SEEK_SET)
	require.NoError(t, err)
	buf := make([]byte, 8192)
	for {
		size, err := unix.Getdents(fd, buf)
		require.NoError(t, err)
		if size == 0 {
			return names, last
		}
		for rest := buf[:size]; len(rest) > 0; {
			var name string
			name, last, rest = parseName(rest)
			if names = append(names, name); len(names) == n {
				return names, last
			}
		}
	}
}

func parseName(b []byte) (name string, cookie int64, rest []byte) {
	size := int(b[16]) | int(b[17])<<8
	for i := range 8 {
		cookie |= int64(b[8+i]) << (8 * i)
	}
	raw := b[19:size]
	return string(raw[:bytes.IndexByte(raw, 0)]), cookie, b[size:]
}

// TestCache checks that a kernel shows old attributes for the time of the cache.
func TestCache(t *testing.T) {
	e := Start(t, Options{Cache: time.Hour})
	a, b := e.Mount("a"), e.Mount("b")
	require.NoError(t, os.WriteFile(filepath.Join(a.Dir, "file"), []byte("old"), 0o600))
	_, err := os.Stat(filepath.Join(b.Dir, "file"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(a.Dir, "file"), []byte("longer"), 0o600))
	st, err := os.Stat(filepath.Join(b.Dir, "file"))
	require.NoError(t, err)
	assert.EqualValues(t, 3, st.Size())
	assert.NotZero(t, st.Sys().(*syscall.Stat_t).Ino)
}
