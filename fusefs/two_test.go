package fusefs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// TestCloseToOpen writes by one mount and reads by another. It checks that open
// sees data closed at the other mount, although both mounts believe attributes
// for long.
func TestCloseToOpen(t *testing.T) {
	s := newServer(t, nil)
	one, two := s.mount(nil), s.mount(nil)
	for i, size := range []int{5000, 5000, 100, 200_000, 0, 1} {
		data := sample(size + i)[i:]
		put(t, one.file("a"), data)
		holds(t, two.file("a"), data)
		st := lstat(t, two.file("a"))
		assert.EqualValues(t, size, st.Size)
	}
	// The other direction, while the file stays open.
	f := open(t, one.file("a"), os.O_RDWR)
	put(t, two.file("a"), []byte("from two"))
	holds(t, one.file("a"), []byte("from two"))
	_, err := f.WriteAt([]byte("FROM"), 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	holds(t, two.file("a"), []byte("FROM two"))
}

// TestKeep checks that repeated reads of a file use cached pages, and that only
// open calls the server.
func TestKeep(t *testing.T) {
	s, m := newMount(t)
	data := sample(300_000)
	put(t, s.file("a"), data)
	holds(t, m.file("a"), data)
	reads, asks := m.calls(nfs3.ProcRead), m.calls(nfs3.ProcAccess)
	for range 3 {
		holds(t, m.file("a"), data)
	}
	assert.Equal(t, reads, m.calls(nfs3.ProcRead))
	assert.Equal(t, asks+3, m.calls(nfs3.ProcAccess))
}

// TestReplaced checks that a file replaced at the server is found under a name
// that the kernel knows.
func TestReplaced(t *testing.T) {
	s, m := newMount(t)
	put(t, s.file("a"), []byte("first"))
	holds(t, m.file("a"), []byte("first"))
	put(t, s.file("b"), []byte("second"))
	require.NoError(t, os.Rename(s.file("b"), s.file("a")))
	holds(t, m.file("a"), []byte("second"))
	require.NoError(t, os.Remove(s.file("a")))
	_, err := os.Open(m.file("a"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.Mkdir(s.file("d"), 0o755))
	put(t, s.file("d/x"), []byte("x"))
	holds(t, m.file("d/x"), []byte("x"))
	require.NoError(t, os.Rename(s.file("d"), s.file("e")))
	require.NoError(t, os.Mkdir(s.file("d"), 0o755))
	put(t, s.file("d/y"), []byte("y"))
	require.NoError(t, os.RemoveAll(s.file("e")))
	holds(t, m.file("d/y"), []byte("y"))
}

// TestCreateOverOther opens with O_CREAT and O_TRUNC a name that this mount
// believes to be unused, but at which another client has created a file.
func TestCreateOverOther(t *testing.T) {
	s, m := newMount(t)
	assert.NoFileExists(t, m.file("a"))
	put(t, s.file("a"), []byte("long content of another"))
	f := open(t, m.file("a"), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	_, err := f.WriteString("short")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	holds(t, s.file("a"), []byte("short"))
	assert.NoFileExists(t, m.file("b"))
	put(t, s.file("b"), []byte("kept "))
	g := open(t, m.file("b"), os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	_, err = g.WriteString("and more")
	require.NoError(t, err)
	require.NoError(t, g.Close())
	holds(t, s.file("b"), []byte("kept and more"))
}

// TestNoac checks that Sync mounts see changes at once, even in open files.
func TestNoac(t *testing.T) {
	s := newServer(t, nil)
	one := s.mount(func(c *Config) { c.Sync = true })
	two := s.mount(func(c *Config) { c.Sync = true })
	f, g := open(t, one.file("a"), os.O_RDWR|os.O_CREATE), open(t, two.file("a"), os.O_RDWR|os.O_CREATE)
	for i := range 20 {
		w, r := f, g
		if i%2 == 1 {
			w, r = g, f
		}
		_, err := w.WriteAt([]byte{byte('a' + i)}, int64(i))
		require.NoError(t, err)
		got := make([]byte, 30)
		n, _ := r.ReadAt(got, 0)
		assert.Equal(t, "abcdefghijklmnopqrst"[:i+1], string(got[:n]))
	}
	require.NoError(t, os.Remove(two.file("a")))
	assert.NoFileExists(t, one.file("a"))
	var st unix.Stat_t
	assert.ErrorIs(t, unix.Stat(one.file("a"), &st), unix.ENOENT)
}
