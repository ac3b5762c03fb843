package billy

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A testCaller is an FS with helpers for tests.
type testCaller struct {
	testing.TB
	*FS
	c vfs.Cred
}

func newUser(t testing.TB, fs gobilly.Filesystem, o Options) testCaller {
	return testCaller{t, serve(t, fs, o), currentCred()}
}

func (u testCaller) create(dir vfs.Handle, name string) vfs.Handle {
	u.Helper()
	m, err := u.Create(u.Context(), &u.c, dir, name, vfs.CreateHow{Mode: vfs.Guarded})
	require.NoError(u, err, name)
	_, _, _, err = u.Write(u.Context(), &u.c, m.Handle, []byte(name), 0, vfs.Unstable)
	require.NoError(u, err, name)
	return m.Handle
}

func (u testCaller) mkdir(dir vfs.Handle, name string) vfs.Handle {
	u.Helper()
	m, err := u.Mkdir(u.Context(), &u.c, dir, name, vfs.SetAttr{})
	require.NoError(u, err, name)
	return m.Handle
}

func (u testCaller) read(h vfs.Handle) (string, error) {
	p := make([]byte, 100)
	n, _, _, err := u.Read(u.Context(), &u.c, h, p, 0)
	return string(p[:n]), err
}

func (u testCaller) lookup(dir vfs.Handle, name string) (vfs.Handle, error) {
	h, _, _, err := u.Lookup(u.Context(), &u.c, dir, name)
	return h, err
}

func (u testCaller) rename(from, to string) {
	u.Helper()
	_, _, err := u.Rename(u.Context(), &u.c, u.Root(), from, u.Root(), to)
	require.NoError(u, err)
}

// TestBound checks that the table keeps its bound, and forgets the least
// recently used nodes, but no directory with a node below it.
func TestBound(t *testing.T) {
	u := newUser(t, newHost(t), Options{MaxObjects: 1})
	dir := u.mkdir(u.Root(), "dir")
	first := u.create(dir, "first")
	for i := range minObjects {
		u.create(dir, fmt.Sprint(i))
		_, err := u.GetAttr(t.Context(), &u.c, u.Root())
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, len(u.table.byHandle), minObjects)
	assert.Equal(t, len(u.table.byHandle), u.table.used.Len()+1)
	_, err := u.read(first)
	assert.ErrorIs(t, err, syscall.ESTALE)
	again, err := u.lookup(dir, "first")
	require.NoError(t, err)
	assert.NotEqual(t, first, again)
	data, err := u.read(again)
	require.NoError(t, err)
	assert.Equal(t, "first", data)

	for i := range 2 * minObjects { // now the directory is evicted too
		u.create(u.Root(), fmt.Sprint("other", i))
	}
	_, err = u.GetAttr(t.Context(), &u.c, dir)
	assert.ErrorIs(t, err, syscall.ESTALE)
	assert.LessOrEqual(t, len(u.table.byHandle), minObjects)
	assert.LessOrEqual(t, len(u.table.byFileID), minObjects)
}

// TestEmptied checks that removed objects leave nothing in the table.
func TestEmptied(t *testing.T) {
	u := newUser(t, newHost(t), Options{})
	for range 3 {
		u.mkdir(u.Root(), "d")
		u.create(u.Root(), "f")
		_, _, err := u.Link(t.Context(), &u.c, u.create(u.Root(), "g"), u.Root(), "h")
		require.NoError(t, err)
		_, err = u.Rmdir(t.Context(), &u.c, u.Root(), "d")
		require.NoError(t, err)
		for _, name := range []string{"f", "g", "h"} {
			_, err = u.Remove(t.Context(), &u.c, u.Root(), name)
			require.NoError(t, err)
		}
	}
	assert.Len(t, u.table.byHandle, 1)
	assert.Empty(t, u.table.byFileID)
	assert.Empty(t, u.table.root.kids)
	assert.Zero(t, u.table.used.Len())
}

// TestReplaced checks that an object gets a new handle if another part of the
// program puts it in place of an old one.
func TestReplaced(t *testing.T) {
	host := newHost(t)
	u := newUser(t, host, Options{})
	f, d := u.create(u.Root(), "f"), u.mkdir(u.Root(), "d")
	inside := u.create(d, "inside")
	require.NoError(t, os.WriteFile(host.at("new"), []byte("new"), 0o600))
	require.NoError(t, os.Rename(host.at("new"), host.at("f")))
	_, err := u.read(f)
	assert.ErrorIs(t, err, syscall.ESTALE)
	h, err := u.lookup(u.Root(), "f")
	require.NoError(t, err)
	data, err := u.read(h)
	require.NoError(t, err)
	assert.Equal(t, "new", data)

	require.NoError(t, os.Rename(host.at("d"), host.at("e")))
	require.NoError(t, os.Mkdir(host.at("other"), 0o700))
	require.NoError(t, os.WriteFile(host.at("other/inside"), nil, 0o600))
	require.NoError(t, os.Symlink("other", host.at("d")))
	_, err = u.read(inside)
	assert.ErrorIs(t, err, syscall.ESTALE, "no way through a link")
	_, err = u.lookup(d, "inside")
	assert.Error(t, err)

	// An object moved by others is found at its new name, but without its old
	// handle.
	h, err = u.lookup(u.Root(), "e")
	require.NoError(t, err)
	_, err = u.lookup(h, "inside")
	require.NoError(t, err)
}

// TestDeep checks that paths have the same limit as a host's.
func TestDeep(t *testing.T) {
	u := newUser(t, struct{ gobilly.Filesystem }{newHost(t)}, Options{Info: noInfo})
	dir := u.Root()
	name := strings.Repeat("n", 250)
	for i := range 20 {
		m, err := u.Mkdir(t.Context(), &u.c, dir, name, vfs.SetAttr{})
		if err != nil {
			assert.ErrorIs(t, err, syscall.ENAMETOOLONG)
			assert.Greater(t, i, 10)
			return
		}
		dir = m.Handle
	}
	assert.Fail(t, "the listing never ends")
}
