package billy

import (
	"os"
	"syscall"
	"testing"
	"time"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A fakeMemoryFS is a file system without inode numbers and with constant times. It rejects no
// rename, and counts its calls.
type fakeMemoryFS struct {
	gobilly.Filesystem
	renames, lists int
}

func (m *fakeMemoryFS) Lstat(name string) (os.FileInfo, error) {
	fi, err := m.Filesystem.Lstat(name)
	return fakeUnchangedInfo{fi}, err
}

func (m *fakeMemoryFS) Rename(from, to string) error {
	m.renames++
	return m.Filesystem.Rename(from, to)
}

func (m *fakeMemoryFS) ReadDir(name string) ([]os.FileInfo, error) {
	m.lists++
	return m.Filesystem.ReadDir(name)
}

type fakeUnchangedInfo struct{ os.FileInfo }

func (fakeUnchangedInfo) ModTime() time.Time { return time.Unix(1e9, 0) }

func useFakeMemory(t *testing.T) (testCaller, *fakeMemoryFS, hostFS) {
	host := newHost(t)
	m := &fakeMemoryFS{Filesystem: host}
	return newUser(t, m, Options{Info: noInfo}), m, host
}

// TestNoNumbers checks that without inode numbers the table distinguishes
// objects.
func TestNoNumbers(t *testing.T) {
	u, _, host := useFakeMemory(t)
	a, b := u.create(u.Root(), "a"), u.create(u.Root(), "b")
	u.rename("a", "b")
	_, err := u.read(b)
	assert.ErrorIs(t, err, syscall.ESTALE, "the replaced file")
	data, err := u.read(a)
	require.NoError(t, err)
	assert.Equal(t, "a", data)
	assert.Len(t, u.table.byHandle, 2)

	require.NoError(t, os.Remove(host.at("b")))
	require.NoError(t, os.Mkdir(host.at("b"), 0o755))
	d, err := u.lookup(u.Root(), "b")
	require.NoError(t, err)
	assert.NotEqual(t, a, d)
	assert.Len(t, u.table.byHandle, 2, "the handle is forgotten at once")
	_, err = u.read(a)
	assert.ErrorIs(t, err, syscall.ESTALE, "a directory has the file's name")
	assert.Len(t, u.table.byHandle, 2)

	attr, err := u.GetAttr(t.Context(), &u.c, d)
	require.NoError(t, err)
	inside := u.create(d, "inside")
	again, err := u.GetAttr(t.Context(), &u.c, inside)
	require.NoError(t, err)
	assert.NotEqual(t, attr.FileID, again.FileID)
}

// TestNoTimes checks that a change shows in the times, even if the file
// system's times are constant.
func TestNoTimes(t *testing.T) {
	u, _, _ := useFakeMemory(t)
	f := u.create(u.Root(), "f")
	before, err := u.GetAttr(t.Context(), &u.c, f)
	require.NoError(t, err)
	for range 100 {
		_, _, w, err := u.Write(t.Context(), &u.c, f, []byte("x"), 0, vfs.Unstable)
		require.NoError(t, err)
		assert.Equal(t, before.Ctime, w.Before.Ctime)
		require.NotEqual(t, before.Ctime, w.After.Ctime)
		before = w.After.Attr
	}
	assert.Equal(t, vfs.Time{Sec: 1e9}, before.Mtime)
	dir, err := u.GetAttr(t.Context(), &u.c, u.Root())
	require.NoError(t, err)
	u.create(u.Root(), "g")
	after, err := u.GetAttr(t.Context(), &u.c, u.Root())
	require.NoError(t, err)
	assert.NotEqual(t, dir.Mtime, after.Mtime, "clients detect changed names by it")
}

// TestIntoItself checks that the FS itself rejects moving a directory below itself.
func TestIntoItself(t *testing.T) {
	u, m, _ := useFakeMemory(t)
	d := u.mkdir(u.Root(), "d")
	e := u.mkdir(d, "e")
	for _, to := range []vfs.Handle{d, e} {
		_, _, err := u.Rename(t.Context(), &u.c, u.Root(), "d", to, "d")
		assert.ErrorIs(t, err, syscall.EINVAL)
	}
	assert.Zero(t, m.renames)
}

// TestListedOnce checks that a directory read in pieces is listed once, and
// that a new listing shows its present content.
func TestListedOnce(t *testing.T) {
	u, m, _ := useFakeMemory(t)
	for i := range 10 {
		u.create(u.Root(), string(rune('a'+i)))
	}
	count := func() (n int) {
		var cookie, verifier uint64
		for eof := false; !eof; {
			took := 0
			var err error
			_, verifier, eof, err = u.ReadDir(t.Context(), &u.c, u.Root(), cookie, verifier, false, func(e *vfs.Entry) bool {
				if took == 2 {
					return false
				}
				took++
				cookie = e.Cookie
				return true
			})
			require.NoError(t, err)
			n += took
		}
		return n
	}
	assert.Equal(t, 12, count())
	assert.Equal(t, 1, m.lists)
	u.create(u.Root(), "later")
	assert.Equal(t, 13, count())
	assert.Equal(t, 2, m.lists)
	for i := range 2 * maxListings {
		d := u.mkdir(u.Root(), string(rune('A'+i)))
		_, _, _, err := u.ReadDir(t.Context(), &u.c, d, 0, 0, false, func(*vfs.Entry) bool { return true })
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, len(u.lists.list), maxListings)
}

// An aliasHandles accepts a second handle for each path.
type aliasHandles struct{ fixedHandles }

func (aliasHandles) Path(h []byte) ([]string, error) { return []string{string(h[1:])}, nil }

// TestAlias checks that of two handles that Handles accepts for a path, only
// the one it makes is valid.
func TestAlias(t *testing.T) {
	host := newHost(t)
	require.NoError(t, os.WriteFile(host.at("f"), []byte("data"), 0o600))
	u := newUser(t, host, Options{Handles: aliasHandles{}})
	for text, want := range map[string]error{"/f": nil, "?f": syscall.ESTALE, "/none": syscall.ESTALE, "/f/g": syscall.ESTALE} {
		h, _ := vfs.NewHandle([]byte(text))
		_, err := u.GetAttr(t.Context(), &u.c, h)
		if want == nil {
			assert.NoError(t, err, text)
		} else {
			assert.ErrorIs(t, err, want, text)
		}
	}
}

// A fakeTimelessFS is a file system that knows no times, like an archive.
type fakeTimelessFS struct{ gobilly.Filesystem }

func (f fakeTimelessFS) Lstat(name string) (os.FileInfo, error) {
	fi, err := f.Filesystem.Lstat(name)
	return fakeUndatedInfo{fi}, err
}

type fakeUndatedInfo struct{ os.FileInfo }

func (fakeUndatedInfo) ModTime() time.Time { return time.Time{} }

// TestZeroTimes checks that objects of a file system without times have the time of New,
// which clients can express and which does not move.
func TestZeroTimes(t *testing.T) {
	host := newHost(t)
	require.NoError(t, os.WriteFile(host.at("f"), nil, 0o644))
	before := time.Now().Unix()
	u := newUser(t, fakeTimelessFS{host}, Options{Info: noInfo})
	f, err := u.lookup(u.Root(), "f")
	require.NoError(t, err)
	for range 2 {
		a, err := u.GetAttr(t.Context(), nil, f)
		require.NoError(t, err)
		assert.Equal(t, u.started, a.Mtime)
		assert.GreaterOrEqual(t, a.Mtime.Sec, before)
		assert.LessOrEqual(t, a.Mtime.Sec, time.Now().Unix())
	}
}
