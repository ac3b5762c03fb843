package mem

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A testCaller is an FS with a caller.
type testCaller struct {
	testing.TB
	*FS
	c vfs.Cred
}

func newUser(t testing.TB, o Options) testCaller {
	return testCaller{t, New(o), vfs.Cred{UID: 1000, GID: 100}}
}

func (u testCaller) create(dir vfs.Handle, name string) (vfs.Handle, error) {
	m, err := u.Create(u.Context(), &u.c, dir, name, vfs.CreateHow{Mode: vfs.Guarded})
	return m.Handle, err
}

func (u testCaller) mkdir(dir vfs.Handle, name string) vfs.Handle {
	u.Helper()
	m, err := u.Mkdir(u.Context(), &u.c, dir, name, vfs.SetAttr{})
	require.NoError(u, err)
	return m.Handle
}

func (u testCaller) write(h vfs.Handle, n int, off uint64) (int, error) {
	done, _, w, err := u.Write(u.Context(), &u.c, h, make([]byte, n), off, vfs.Unstable)
	assert.True(u, w.After.OK)
	return done, err
}

// TestFull checks that all stored data is bounded, and that its space becomes free again.
func TestFull(t *testing.T) {
	const pages = 10
	u := newUser(t, Options{Size: pages*pageLen + clusterCost + 2*objectCost})
	f, err := u.create(u.Root(), "f")
	require.NoError(t, err)
	n, err := u.write(f, (pages+1)*pageLen, 0)
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.Equal(t, pages*pageLen, n, "as many bytes as fit")
	a, err := u.GetAttr(t.Context(), &u.c, f)
	require.NoError(t, err)
	assert.EqualValues(t, pages*pageLen, a.Size)
	n, err = u.write(f, pageLen, 1<<40)
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.Zero(t, n)
	n, err = u.write(f, pageLen, 0)
	require.NoError(t, err, "present bytes can be overwritten")
	assert.Equal(t, pageLen, n)

	s, _, err := u.StatFS(t.Context(), &u.c, u.Root())
	require.NoError(t, err)
	assert.EqualValues(t, objectCost, s.FreeBytes)
	_, err = u.create(u.Root(), "g")
	require.NoError(t, err)
	for _, err := range []error{
		second(u.create(u.Root(), "h")),
		second(u.Mkdir(t.Context(), &u.c, u.Root(), "d", vfs.SetAttr{})),
		second(u.Symlink(t.Context(), &u.c, u.Root(), "l", "target", vfs.SetAttr{})),
		third(u.Link(t.Context(), &u.c, f, u.Root(), "k")),
	} {
		assert.ErrorIs(t, err, syscall.ENOSPC)
	}

	size := uint64(pageLen + 1)
	_, err = u.SetAttr(t.Context(), &u.c, f, vfs.SetAttr{Size: &size}, nil)
	require.NoError(t, err)
	assert.EqualValues(t, (pages-2)*pageLen, u.size-u.used)
	for _, name := range []string{"f", "g"} {
		_, err = u.Remove(t.Context(), &u.c, u.Root(), name)
		require.NoError(t, err)
	}
	assert.Zero(t, u.used)
	assert.Len(t, u.nodes, 1)
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }

// TestHoles checks that unwritten parts of a file take no space, for any length.
func TestHoles(t *testing.T) {
	u := newUser(t, Options{Size: 4 * pageLen})
	f, err := u.create(u.Root(), "f")
	require.NoError(t, err)
	size := uint64(maxFileSize)
	_, err = u.SetAttr(t.Context(), &u.c, f, vfs.SetAttr{Size: &size}, nil)
	require.NoError(t, err)
	_, err = u.write(f, 1, maxFileSize-1)
	require.NoError(t, err)
	p := make([]byte, 3*pageLen)
	n, eof, a, err := u.Read(t.Context(), &u.c, f, p, maxFileSize-uint64(len(p)))
	require.NoError(t, err)
	assert.Equal(t, len(p), n)
	assert.True(t, eof)
	assert.EqualValues(t, pageLen, a.Used)
}

// TestCut checks that data cut off does not come back.
func TestCut(t *testing.T) {
	u := newUser(t, Options{})
	f, err := u.create(u.Root(), "f")
	require.NoError(t, err)
	_, _, _, err = u.Write(t.Context(), &u.c, f, []byte("0123456789"), pageLen-4, vfs.Unstable)
	require.NoError(t, err)
	for _, size := range []uint64{pageLen - 2, pageLen + 6} {
		_, err = u.SetAttr(t.Context(), &u.c, f, vfs.SetAttr{Size: &size}, nil)
		require.NoError(t, err)
	}
	p := make([]byte, 20)
	n, eof, _, err := u.Read(t.Context(), &u.c, f, p, pageLen-4)
	require.NoError(t, err)
	assert.True(t, eof)
	assert.Equal(t, "01\x00\x00\x00\x00\x00\x00\x00\x00", string(p[:n]))
}

// TestOther checks that another FS's handle is rejected.
func TestOther(t *testing.T) {
	a, b := newUser(t, Options{}), newUser(t, Options{})
	_, err := a.GetAttr(t.Context(), &a.c, b.Root())
	assert.ErrorIs(t, err, syscall.ESTALE)
	short, _ := vfs.NewHandle(make([]byte, handleLen-1))
	_, err = a.GetAttr(t.Context(), &a.c, short)
	assert.ErrorIs(t, err, vfs.ErrBadHandle)
}

// TestManyNames checks that the list of a directory drops removed entries.
func TestManyNames(t *testing.T) {
	u := newUser(t, Options{})
	for i := range 2000 {
		_, err := u.create(u.Root(), fmt.Sprint(i))
		require.NoError(t, err)
		if i >= 10 {
			_, err = u.Remove(t.Context(), &u.c, u.Root(), fmt.Sprint(i-10))
			require.NoError(t, err)
		}
		require.LessOrEqual(t, len(u.root.names.list), 2*11+slack+1)
	}
	assert.Equal(t, 10, u.root.names.len())
}

// TestLinkCounts checks that a directory has a link for itself, for its name in
// its parent, and for each directory in it.
func TestLinkCounts(t *testing.T) {
	u := newUser(t, Options{})
	links := func(h vfs.Handle) uint32 {
		a, err := u.GetAttr(t.Context(), &u.c, h)
		require.NoError(t, err)
		return a.Nlink
	}
	d, e := u.mkdir(u.Root(), "d"), u.mkdir(u.Root(), "e")
	u.mkdir(d, "sub")
	assert.Equal(t, []uint32{4, 3, 2}, []uint32{links(u.Root()), links(d), links(e)})
	_, _, err := u.Rename(t.Context(), &u.c, d, "sub", e, "sub")
	require.NoError(t, err)
	assert.Equal(t, []uint32{4, 2, 3}, []uint32{links(u.Root()), links(d), links(e)})
	_, _, err = u.Rename(t.Context(), &u.c, e, "sub", u.Root(), "d") // over an empty directory
	require.NoError(t, err)
	_, err = u.Rmdir(t.Context(), &u.c, u.Root(), "e")
	require.NoError(t, err)
	assert.EqualValues(t, 3, links(u.Root()))
}

// TestSticky checks that in the default root everyone can make files and remove
// only their own.
func TestSticky(t *testing.T) {
	u := newUser(t, Options{})
	_, err := u.create(u.Root(), "f")
	require.NoError(t, err)
	_, err = u.create(u.Root(), "g")
	require.NoError(t, err)
	other := vfs.Cred{UID: 2000, GID: 100}
	m, err := u.Create(t.Context(), &other, u.Root(), "theirs", vfs.CreateHow{})
	require.NoError(t, err)
	_, err = u.Remove(t.Context(), &other, u.Root(), "f")
	assert.ErrorIs(t, err, syscall.EPERM)
	_, _, err = u.Rename(t.Context(), &other, u.Root(), "theirs", u.Root(), "f")
	assert.ErrorIs(t, err, syscall.EPERM)
	_, _, err = u.Rename(t.Context(), &other, u.Root(), "f", u.Root(), "mine")
	assert.ErrorIs(t, err, syscall.EPERM)
	_, err = u.GetAttr(t.Context(), &other, m.Handle)
	assert.NoError(t, err)
	_, _, err = u.Rename(t.Context(), &u.c, u.Root(), "f", u.Root(), "g")
	assert.NoError(t, err)
}

// TestCutAnywhere checks that data cut off is gone, for any new size, and that
// no remaining page is visited.
func TestCutAnywhere(t *testing.T) {
	const pages = 4 * clusterLen
	for _, size := range []uint64{
		0, 1, pageLen - 1, pageLen, pageLen + 1, (clusterLen - 1) * pageLen, clusterLen*pageLen - 1, clusterLen * pageLen,
		clusterLen*pageLen + 1, (2*clusterLen + 5) * pageLen, 2*clusterLen*pageLen + 7, pages*pageLen - 1,
	} {
		u := newUser(t, Options{})
		h, err := u.create(u.Root(), "f")
		require.NoError(t, err)
		data := bytes.Repeat([]byte("x"), pages*pageLen)
		_, _, _, err = u.Write(t.Context(), &u.c, h, data, 0, vfs.Unstable)
		require.NoError(t, err)
		_, err = u.write(h, 1, 1<<40) // far away
		require.NoError(t, err)
		n, err := u.fileOf(h)
		require.NoError(t, err)
		require.Len(t, n.clusters, pages/clusterLen+1, "clusters that a truncation visits")

		far := uint64(1<<40 + 1)
		for _, s := range []uint64{size, far} {
			_, err = u.SetAttr(t.Context(), &u.c, h, vfs.SetAttr{Size: &s}, nil)
			require.NoError(t, err)
			assert.Equal(t, u.count(), u.used, size)
		}
		assert.EqualValues(t, (size+pageLen-1)/pageLen*pageLen, n.attr.Used)
		got := make([]byte, len(data))
		_, _, _, err = u.Read(t.Context(), &u.c, h, got, 0)
		require.NoError(t, err)
		clear(data[size:])
		assert.True(t, bytes.Equal(data, got), size)
	}
}
