package fusefs

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fixedTime is a timestamp that tests set repeatedly, so that it shows no change.
var fixedTime = unix.Timespec{Sec: 1_000_000_000}

// rewriteInPlace writes a file of the server in place and sets its mtime back, as cp -p
// and rsync --inplace -t do.
func (s *testServer) rewriteInPlace(name, data string) {
	s.t.Helper()
	time.Sleep(20 * time.Millisecond) // another tick of the server's clock
	f, err := os.OpenFile(s.path(name), os.O_WRONLY|os.O_CREATE, 0o644)
	require.NoError(s.t, err)
	_, err = f.WriteString(data)
	require.NoError(s.t, err)
	require.NoError(s.t, f.Close())
	setTimes(s.t, s.path(name), fixedTime, fixedTime)
}

// refetchAttr has the kernel and the mount forget the attributes of an object in
// the root, and ask for them again.
func (m *testMount) refetchAttr(name string) {
	m.t.Helper()
	n := m.table.findChild(m.table.findNode(fuse.FUSE_ROOT_ID), name)
	m.invalidateAttr(n)
	m.expireAttr(n)
	mustLstat(m.t, m.path(name))
}

// uncached are the options of nfs(5) that limit caching.
var uncached = map[string]func(c *Config){
	"default": func(c *Config) {},
	"actimeo=1": func(c *Config) {
		c.RegMin, c.RegMax, c.DirMin, c.DirMax = time.Second, time.Second, time.Second, time.Second
	},
	"actimeo=0,lookupcache=none": func(c *Config) {
		c.RegMin, c.RegMax, c.DirMin, c.DirMax, c.Lookup = 0, 0, 0, 0, LookupNone
	},
	"noac": func(c *Config) { c.Sync = true },
}

// TestRewritten checks that open sees a file that another client rewrote in
// place with its old size and mtime, whether or not the mount has told the
// program the new ctime before.
func TestRewritten(t *testing.T) {
	for name, change := range uncached {
		for _, told := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := newServer(t, nil)
				m := s.mount(change)
				s.rewriteInPlace("a", "AAAA")
				assertContent(t, m.path("a"), []byte("AAAA"))
				assertContent(t, m.path("a"), []byte("AAAA"))
				s.rewriteInPlace("a", "BBBB")
				if told {
					m.refetchAttr("a")
					assert.Equal(t, mustLstat(t, s.path("a")).Ctim, mustLstat(t, m.path("a")).Ctim)
				}
				assertContent(t, m.path("a"), []byte("BBBB"))
			})
		}
	}
}

// TestRewrittenOpen checks that an open file shows data that another client rewrote
// in place with their old size and mtime as soon as attributes are no longer valid:
// with noac at the next read.
func TestRewrittenOpen(t *testing.T) {
	s := newServer(t, nil)
	m := s.mount(uncached["noac"])
	s.rewriteInPlace("a", "AAAA")
	f := openAt(t, m.path("a"), os.O_RDONLY)
	for _, want := range []string{"AAAA", "BBBB", "CCCC"} {
		s.rewriteInPlace("a", want)
		got := make([]byte, 4)
		for range 2 {
			_, err := f.ReadAt(got, 0)
			require.NoError(t, err)
			assert.Equal(t, want, string(got))
		}
	}
	reads := m.callCount(nfs3.ProcRead)
	for range 5 {
		_, err := f.ReadAt(make([]byte, 4), 0)
		require.NoError(t, err)
	}
	assert.Equal(t, reads, m.callCount(nfs3.ProcRead), "unchanged data are cached")
}

// TestGrownOpen checks that an open file shows data that another client has appended as
// soon as its cached attributes expire: with noac, at the first read.
func TestGrownOpen(t *testing.T) {
	s := newServer(t, nil)
	m := s.mount(uncached["noac"])
	writeFile(t, s.path("a"), []byte("A"))
	f := openAt(t, m.path("a"), os.O_RDONLY)
	for want := "A"; len(want) < 8; want += "B" {
		writeFile(t, s.path("a"), []byte(want))
		got := make([]byte, 9)
		n, err := unix.Pread(int(f.Fd()), got, 0)
		require.NoError(t, err)
		assert.Equal(t, want, string(got[:n]))
	}
}

// TestRestoredDirectory checks that names of a directory whose mtime was set
// back after a change, as tar -x and rsync -t do, are looked up again.
func TestRestoredDirectory(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.Mkdir(s.path("d"), 0o755))
	writeFile(t, s.path("d/a"), []byte("first"))
	writeFile(t, s.path("b"), []byte("second"))
	setTimes(t, s.path("d"), fixedTime, fixedTime)
	before := mustLstat(t, m.path("d/a")).Ino
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, os.Rename(s.path("b"), s.path("d/a")))
	setTimes(t, s.path("d"), fixedTime, fixedTime)
	m.refetchAttr("d")
	m.expireName(m.table.findChild(m.table.findNode(fuse.FUSE_ROOT_ID), "d"), "a") // as if the kernel needed memory
	assert.NotEqual(t, before, mustLstat(t, m.path("d/a")).Ino)
}

// TestOwnChmod checks that changes of attributes by this mount do not drop the
// data of the file, unless another client has changed the file as well.
func TestOwnChmod(t *testing.T) {
	s, m := newMount(t)
	s.rewriteInPlace("a", "AAAA")
	assertContent(t, m.path("a"), []byte("AAAA"))
	reads := m.callCount(nfs3.ProcRead)
	for i := range 3 {
		require.NoError(t, os.Chmod(m.path("a"), 0o600+os.FileMode(i)))
		setTimes(t, m.path("a"), fixedTime, unix.Timespec{Sec: int64(i)})
		assertContent(t, m.path("a"), []byte("AAAA"))
	}
	assert.Equal(t, reads, m.callCount(nfs3.ProcRead))
	setTimes(t, m.path("a"), fixedTime, fixedTime)
	s.rewriteInPlace("a", "BBBB")
	require.NoError(t, os.Chmod(m.path("a"), 0o644))
	assertContent(t, m.path("a"), []byte("BBBB"))
}

// TestResizedOpen checks that an open file shows data that another client appended,
// and the end that another client set, at the first read after attributes are no
// longer valid, and that the kernel drops its data once.
func TestResizedOpen(t *testing.T) {
	s := newServer(t, nil)
	m := s.mount(uncached["noac"])
	writeFile(t, s.path("a"), []byte("a"))
	f := openAt(t, m.path("a"), os.O_RDONLY)
	_, err := f.ReadAt(make([]byte, 1), 0)
	require.NoError(t, err)
	for i, size := range []int{0, 1, 5000, 300_000, 100, 200, 0, 4096, 4097} {
		data := randomBytes(size + i)[i:]
		time.Sleep(20 * time.Millisecond) // another tick of the server's clock
		writeFile(t, s.path("a"), data)
		got := make([]byte, 400_000)
		n, err := f.ReadAt(got, 0)
		require.ErrorIs(t, err, io.EOF)
		assert.Equal(t, size, n, "bytes of change %d", i)
		assert.True(t, bytes.Equal(data, got[:n]), "content of change %d", i)
		reads := m.callCount(nfs3.ProcRead)
		for range 3 {
			_, err = f.ReadAt(got[:min(size, 10)], 0)
			require.NoError(t, err)
		}
		assert.Equal(t, reads, m.callCount(nfs3.ProcRead), "reads of data that are cached after change %d", i)
	}
}
