package fusefs

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// setTimes sets the times of a file.
func setTimes(t testing.TB, path string, atime, mtime unix.Timespec) {
	t.Helper()
	require.NoError(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{atime, mtime}, unix.AT_SYMLINK_NOFOLLOW))
}

// TestTimes checks setting times to the nanosecond, to now, and not at all.
func TestTimes(t *testing.T) {
	s, m := newMount(t)
	writeFile(t, m.path("a"), nil)
	atime, mtime := unix.Timespec{Sec: 1_000_000_000, Nsec: 123_456_789}, unix.Timespec{Sec: 4_000_000_000, Nsec: 1}
	setTimes(t, m.path("a"), atime, mtime)
	for _, path := range []string{m.path("a"), s.path("a")} {
		st := mustLstat(t, path)
		assert.Equal(t, atime, st.Atim)
		assert.Equal(t, mtime, st.Mtim)
	}
	setTimes(t, m.path("a"), unix.Timespec{Nsec: unix.UTIME_OMIT}, unix.Timespec{Sec: 7, Nsec: 8})
	st := mustLstat(t, m.path("a"))
	assert.Equal(t, atime, st.Atim)
	assert.Equal(t, unix.Timespec{Sec: 7, Nsec: 8}, st.Mtim)
	before := time.Now().Add(-time.Second)
	setTimes(t, m.path("a"), unix.Timespec{Nsec: unix.UTIME_NOW}, unix.Timespec{Nsec: unix.UTIME_OMIT})
	st = mustLstat(t, m.path("a"))
	assert.True(t, time.Unix(st.Atim.Unix()).After(before))
	assert.Equal(t, unix.Timespec{Sec: 7, Nsec: 8}, st.Mtim)
	setTimes(t, m.path("a"), unix.Timespec{Sec: -5}, unix.Timespec{Sec: 1 << 33, Nsec: 9})
	st = mustLstat(t, s.path("a"))
	assert.Equal(t, unix.Timespec{}, st.Atim, "NFS version 3 knows no time before 1970,")
	assert.Equal(t, unix.Timespec{Sec: math.MaxUint32}, st.Mtim, "nor after 2106")
}

// TestTimesAfterWrite checks that written data in flight does not change a time
// set after the write.
func TestTimesAfterWrite(t *testing.T) {
	s, m := newMount(t)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	_, err := f.WriteString("data")
	require.NoError(t, err)
	want := unix.Timespec{Sec: 1000, Nsec: 2000}
	setTimes(t, m.path("a"), want, want)
	require.NoError(t, f.Close())
	assert.Equal(t, want, mustLstat(t, m.path("a")).Mtim)
	assert.Equal(t, want, mustLstat(t, s.path("a")).Mtim)
}

// TestWriteMovesTime checks that the mtime of a file being written changes.
func TestWriteMovesTime(t *testing.T) {
	_, m := newMount(t)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	long := unix.Timespec{Sec: 1000}
	setTimes(t, m.path("a"), long, long)
	_, err := f.WriteString("data")
	require.NoError(t, err)
	st := mustLstat(t, m.path("a"))
	assert.NotEqual(t, long, st.Mtim)
	assert.EqualValues(t, 4, st.Size)
}

// TestModes checks changes of modes and owners.
func TestModes(t *testing.T) {
	s, m := newMount(t)
	writeFile(t, m.path("a"), nil)
	require.NoError(t, os.Chmod(m.path("a"), 0o751|os.ModeSetuid))
	require.NoError(t, os.Chown(m.path("a"), 12345, 4_000_000_000))
	here, there := mustLstat(t, m.path("a")), mustLstat(t, s.path("a"))
	assert.EqualValues(t, 12345, here.Uid)
	assert.EqualValues(t, 4_000_000_000, here.Gid)
	assert.Equal(t, there.Mode, here.Mode)
	old := unix.Umask(0o027)
	defer unix.Umask(old)
	require.NoError(t, os.Mkdir(m.path("d"), 0o777))
	assert.EqualValues(t, 0o750, mustLstat(t, m.path("d")).Mode&0o7777)
	f, err := os.OpenFile(m.path("b"), os.O_CREATE|os.O_WRONLY, 0o666)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	assert.EqualValues(t, 0o640, mustLstat(t, s.path("b")).Mode&0o7777)
}

// TestStatfs compares statfs with the server's own file system.
func TestStatfs(t *testing.T) {
	s, m := newMount(t)
	var here, there unix.Statfs_t
	require.NoError(t, unix.Statfs(s.dir, &there))
	require.NoError(t, unix.Statfs(m.dir, &here))
	assert.Equal(t, there.Blocks*uint64(there.Bsize), here.Blocks*uint64(here.Frsize))
	assert.Equal(t, there.Files, here.Files)
	assert.Equal(t, there.Namelen, here.Namelen)
	assert.EqualValues(t, 1<<20, here.Bsize)
	assert.LessOrEqual(t, here.Bavail, here.Bfree)
}

// TestXattr checks that extended attributes are not supported.
func TestXattr(t *testing.T) {
	_, m := newMount(t)
	writeFile(t, m.path("a"), nil)
	assert.ErrorIs(t, unix.Setxattr(m.path("a"), "user.x", []byte("y"), 0), unix.EOPNOTSUPP)
}

// TestBelieved counts the calls of repeated lstat while attributes are cached.
func TestBelieved(t *testing.T) {
	s := newServer(t, nil)
	writeFile(t, s.path("a"), []byte("x"))
	for _, tt := range []struct {
		name       string
		change     func(c *Config)
		gets, asks int // GETATTR, LOOKUP
	}{
		{"default", nil, 0, 1},
		{"lookupcache=none", func(c *Config) { c.Lookup = LookupNone }, 0, 10},
		{"noac", func(c *Config) { c.Sync = true }, 10, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := s.mount(tt.change)
			gets, asks := m.callCount(nfs3.ProcGetAttr), m.callCount(nfs3.ProcLookup)
			for range 10 {
				mustLstat(t, m.path("a"))
			}
			// Without caching, the kernel may take the attributes of its
			// LOOKUP.
			assert.LessOrEqual(t, m.callCount(nfs3.ProcGetAttr)-gets, 2*tt.gets)
			assert.Equal(t, tt.asks, m.callCount(nfs3.ProcLookup)-asks)
		})
	}
}

// TestMissing counts the calls for repeated lookups of an absent name.
func TestMissing(t *testing.T) {
	s := newServer(t, nil)
	for _, tt := range []struct {
		lookup LookupCache
		asks   int
	}{{LookupAll, 1}, {LookupPositive, 10}, {LookupNone, 10}} {
		m := s.mount(func(c *Config) { c.Lookup = tt.lookup })
		before := m.callCount(nfs3.ProcLookup)
		for range 10 {
			assert.NoFileExists(t, m.path("none"))
		}
		assert.Equal(t, tt.asks, m.callCount(nfs3.ProcLookup)-before, "%v", tt.lookup)
		writeFile(t, m.path("none"), nil)
		assert.FileExists(t, m.path("none"), "the file made here exists")
		require.NoError(t, os.Remove(m.path("none")))
	}
}

// attrOfSize returns attributes that number identifies.
func attrOfSize(number uint32) *nfs3.Attr {
	return &nfs3.Attr{Type: nfs3.TypeReg, FileID: 7, Size: uint64(number), Mtime: nfs3.Time{Sec: number}, Ctime: nfs3.Time{Sec: number}}
}

// TestLateReplies checks which of two replies wins.
func TestLateReplies(t *testing.T) {
	m := &Mount{cfg: Config{RegMin: time.Hour, RegMax: time.Hour}}
	fresh := func() *node { return &node{} }
	size := func(n *node) uint64 { return n.attr.Size }

	n := fresh()
	first, second := m.nextTick(), m.nextTick()
	assert.True(t, m.learnAttr(n, second, attrOfSize(2)))
	assert.False(t, m.learnAttr(n, first, attrOfSize(1)), "began before")
	assert.EqualValues(t, 2, size(n))
	assert.False(t, m.learnAttr(n, m.nextTick(), attrOfSize(2)), "no more calls")

	// GETATTR began before our change had completed.
	n = fresh()
	get, set := m.nextTick(), m.nextTick()
	m.learnAfterChange(n, set, &nfs3.PostOpAttr{OK: true, Attr: *attrOfSize(2)})
	assert.NotZero(t, n.freshTime())
	m.learnAttr(n, get, attrOfSize(1))
	assert.EqualValues(t, 2, size(n))
	m.learnAttr(n, m.nextTick(), attrOfSize(3))
	assert.EqualValues(t, 3, size(n))

	// Two concurrent changes: the server's order is unknown.
	n = fresh()
	first, second = m.nextTick(), m.nextTick()
	m.learnAfterChange(n, second, &nfs3.PostOpAttr{OK: true, Attr: *attrOfSize(2)})
	m.learnAfterChange(n, first, &nfs3.PostOpAttr{OK: true, Attr: *attrOfSize(1)})
	assert.Zero(t, n.freshTime())
	assert.False(t, n.hasLatestAttr())

	// A change whose reply has no attributes.
	n = fresh()
	m.learnAttr(n, m.nextTick(), attrOfSize(1))
	m.learnAfterChange(n, m.nextTick(), &nfs3.PostOpAttr{})
	assert.Zero(t, n.freshTime())

	// Data in flight: the server's size is not final.
	n = fresh()
	m.learnAttr(n, m.nextTick(), attrOfSize(10))
	m.recordWrite(n, 100)
	count := n.countWrites()
	get = m.nextTick()
	m.recordArrival(n, count, 0, nil)
	m.learnAttr(n, get, attrOfSize(10))
	var out fuse.Attr
	assert.Zero(t, m.fillAttr(n, &out))
	assert.EqualValues(t, 100, out.Size)
	m.learnAttr(n, m.nextTick(), attrOfSize(50)) // by another client
	m.fillAttr(n, &out)
	assert.EqualValues(t, 50, out.Size)

	// Attributes in the reply that confirms all data are final.
	for _, tt := range []struct {
		meanwhile func(n *node)
		want      uint64
	}{
		{func(*node) {}, 60},
		{func(n *node) { m.recordWrite(n, 100) }, 100}, // more data
		{func(n *node) { m.learnAfterChange(n, m.nextTick(), &nfs3.PostOpAttr{OK: true, Attr: *attrOfSize(70)}) }, 100},
	} {
		n = fresh()
		m.recordWrite(n, 100)
		count, get = n.countWrites(), m.nextTick()
		began := m.nextTick()
		tt.meanwhile(n)
		m.recordArrival(n, count, began, &nfs3.PostOpAttr{OK: true, Attr: *attrOfSize(60)})
		m.learnAttr(n, get, attrOfSize(1))
		life := m.fillAttr(n, &out)
		assert.Equal(t, tt.want, out.Size)
		assert.Equal(t, tt.want == 60, life > 0)
	}
}

// TestStatAfterClose checks that the attributes in the reply that puts data on
// stable storage are not fetched again.
func TestStatAfterClose(t *testing.T) {
	s, m := newMount(t)
	for name, size := range map[string]int{"a single WRITE": 1, "several, and a COMMIT": 3<<20 + 5} {
		writeFile(t, s.path(name), []byte("before"))
		f := openAt(t, m.path(name), os.O_RDWR)
		asked := m.callCount(nfs3.ProcGetAttr)
		_, err := f.WriteAt(randomBytes(size), 0)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		st := mustLstat(t, m.path(name))
		assert.Equal(t, asked, m.callCount(nfs3.ProcGetAttr), name)
		assert.Equal(t, mustLstat(t, s.path(name)).Mtim, st.Mtim)
		assert.EqualValues(t, max(size, len("before")), st.Size)
		_, err = f.WriteAt([]byte("x"), 10)
		require.NoError(t, err)
		st = mustLstat(t, m.path(name))
		assert.Equal(t, asked+1, m.callCount(nfs3.ProcGetAttr), "data on their way")
		assert.Equal(t, mustLstat(t, s.path(name)).Mtim, st.Mtim)
	}
}

// TestLife checks how long attributes are cached: twice as long each time that they
// prove unchanged.
func TestLife(t *testing.T) {
	m := &Mount{cfg: Config{RegMin: time.Second, RegMax: 3 * time.Second, DirMin: time.Minute, DirMax: time.Hour}}
	n := &node{}
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
		m.learnAttr(n, m.nextTick(), attrOfSize(1))
		assert.Equal(t, want, n.lifetime)
		n.lifetimeSetAt -= instant(n.lifetime) // that long ago
	}
	m.learnAttr(n, m.nextTick(), attrOfSize(1))
	m.learnAttr(n, m.nextTick(), attrOfSize(1))
	assert.Equal(t, 3*time.Second, n.lifetime, "a second query at once returns the same")
	m.learnAttr(n, m.nextTick(), attrOfSize(2))
	assert.Equal(t, time.Second, n.lifetime)
	d := &node{}
	m.learnAttr(d, m.nextTick(), &nfs3.Attr{Type: nfs3.TypeDir})
	assert.Equal(t, time.Minute, d.lifetime)
}

// TestDevices checks both forms of a device number.
func TestDevices(t *testing.T) {
	for _, d := range []nfs3.SpecData{{}, {Major: 8, Minor: 1}, {Major: 0xfff, Minor: 0xfffff}, {Major: 300, Minor: 70000}} {
		assert.Equal(t, d, decodeDev(encodeDev(d)))
	}
	assert.EqualValues(t, 0x11110, encodeDev(nfs3.SpecData{Major: 0x1, Minor: 0x110})&0xfff00|0x11010)
}
