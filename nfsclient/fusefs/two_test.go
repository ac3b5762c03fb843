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
// sees data closed at the other mount, although both mounts cache attributes for
// long.
func TestCloseToOpen(t *testing.T) {
	s := newServer(t, nil)
	one, two := s.mount(nil), s.mount(nil)
	for i, size := range []int{5000, 5000, 100, 200_000, 0, 1} {
		data := randomBytes(size + i)[i:]
		writeFile(t, one.path("a"), data)
		assertContent(t, two.path("a"), data)
		st := mustLstat(t, two.path("a"))
		assert.EqualValues(t, size, st.Size)
	}
	// The other direction, while the file stays open.
	f := openAt(t, one.path("a"), os.O_RDWR)
	writeFile(t, two.path("a"), []byte("from two"))
	assertContent(t, one.path("a"), []byte("from two"))
	_, err := f.WriteAt([]byte("FROM"), 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	assertContent(t, two.path("a"), []byte("FROM two"))
}

// TestKeep checks that repeated reads of a file use cached pages, and that only
// open calls the server.
func TestKeep(t *testing.T) {
	s, m := newMount(t)
	data := randomBytes(300_000)
	writeFile(t, s.path("a"), data)
	assertContent(t, m.path("a"), data)
	reads, asks := m.callCount(nfs3.ProcRead), m.callCount(nfs3.ProcAccess)
	for range 3 {
		assertContent(t, m.path("a"), data)
	}
	assert.Equal(t, reads, m.callCount(nfs3.ProcRead))
	assert.Equal(t, asks+3, m.callCount(nfs3.ProcAccess))
}

// TestReplaced checks that a file replaced at the server is found under a name
// that the kernel knows.
func TestReplaced(t *testing.T) {
	s, m := newMount(t)
	writeFile(t, s.path("a"), []byte("first"))
	assertContent(t, m.path("a"), []byte("first"))
	writeFile(t, s.path("b"), []byte("second"))
	require.NoError(t, os.Rename(s.path("b"), s.path("a")))
	assertContent(t, m.path("a"), []byte("second"))
	require.NoError(t, os.Remove(s.path("a")))
	_, err := os.Open(m.path("a"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.Mkdir(s.path("d"), 0o755))
	writeFile(t, s.path("d/x"), []byte("x"))
	assertContent(t, m.path("d/x"), []byte("x"))
	require.NoError(t, os.Rename(s.path("d"), s.path("e")))
	require.NoError(t, os.Mkdir(s.path("d"), 0o755))
	writeFile(t, s.path("d/y"), []byte("y"))
	require.NoError(t, os.RemoveAll(s.path("e")))
	assertContent(t, m.path("d/y"), []byte("y"))
}

// TestCreateOverOther opens with O_CREAT and O_TRUNC a name that this mount
// believes to be unused, but at which another client has created a file.
func TestCreateOverOther(t *testing.T) {
	s, m := newMount(t)
	assert.NoFileExists(t, m.path("a"))
	writeFile(t, s.path("a"), []byte("long content of another"))
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	_, err := f.WriteString("short")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	assertContent(t, s.path("a"), []byte("short"))
	assert.NoFileExists(t, m.path("b"))
	writeFile(t, s.path("b"), []byte("kept "))
	g := openAt(t, m.path("b"), os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	_, err = g.WriteString("and more")
	require.NoError(t, err)
	require.NoError(t, g.Close())
	assertContent(t, s.path("b"), []byte("kept and more"))
}

// TestNoac checks that Sync mounts see changes at once, even in open files.
func TestNoac(t *testing.T) {
	s := newServer(t, nil)
	one := s.mount(func(c *Config) { c.Sync = true })
	two := s.mount(func(c *Config) { c.Sync = true })
	f, g := openAt(t, one.path("a"), os.O_RDWR|os.O_CREATE), openAt(t, two.path("a"), os.O_RDWR|os.O_CREATE)
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
	require.NoError(t, os.Remove(two.path("a")))
	assert.NoFileExists(t, one.path("a"))
	var st unix.Stat_t
	assert.ErrorIs(t, unix.Stat(one.path("a"), &st), unix.ENOENT)
}
