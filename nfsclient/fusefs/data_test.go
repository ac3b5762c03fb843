package fusefs

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// assertContent asserts that a file has the given content.
func assertContent(t testing.TB, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, len(want), len(got), path)
	assert.True(t, bytes.Equal(want, got), path)
}

// writeFile creates a file.
func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, data, 0o644))
}

// openAt opens a file until the end of the test.
func openAt(t testing.TB, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0o644)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// TestContent checks writing and reading files of odd lengths.
func TestContent(t *testing.T) {
	s, m := newMount(t)
	for _, size := range []int{0, 1, 3, 4095, 4096, 4097, 128<<10 + 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 9<<20 + 13} {
		data := randomBytes(size)
		name := fmt.Sprint(size)
		writeFile(t, m.path(name), data)
		assertContent(t, s.path(name), data)
		assertContent(t, m.path(name), data)
		writeFile(t, s.path("made"+name), data)
		assertContent(t, m.path("made"+name), data)
	}
}

// TestThrough checks that a mount with Sync writes and reads without delay.
func TestThrough(t *testing.T) {
	s := newServer(t, nil)
	m := s.mount(func(c *Config) { c.Sync = true })
	data := randomBytes(3<<20 + 7)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	_, err := f.Write(data)
	require.NoError(t, err)
	assertContent(t, s.path("a"), data) // before any close
	assert.Zero(t, m.callCount(nfs3.ProcCommit))
	writeFile(t, s.path("a"), data[1:])
	assertContent(t, m.path("a"), data[1:])
}

// TestSmallWrites checks small writes forward and backward, with reads in
// between.
func TestSmallWrites(t *testing.T) {
	s, m := newMount(t)
	want := randomBytes(300 << 10)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	for off := 0; off < len(want); off += 1000 {
		_, err := f.WriteAt(want[off:min(off+1000, len(want))], int64(off))
		require.NoError(t, err)
	}
	writes := m.callCount(nfs3.ProcWrite)
	assert.Less(t, writes, 20, "small writes are gathered")
	assertContent(t, m.path("a"), want)
	for off := len(want) - 10; off > 0; off -= 7777 {
		copy(want[off:], "0123456789")
		_, err := f.WriteAt([]byte("0123456789"), int64(off))
		require.NoError(t, err)
		back := make([]byte, 30)
		n, _ := f.ReadAt(back, int64(max(0, off-10)))
		assert.Equal(t, want[max(0, off-10):][:n], back[:n])
		info, err := f.Stat()
		require.NoError(t, err)
		assert.EqualValues(t, len(want), info.Size())
	}
	require.NoError(t, f.Sync())
	assertContent(t, s.path("a"), want)
}

// TestSyncByReader checks that fsync of a read-only descriptor covers data
// written through another.
func TestSyncByReader(t *testing.T) {
	s, m := newMount(t)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	g := openAt(t, m.path("a"), os.O_RDONLY)
	_, err := f.WriteString("by f")
	require.NoError(t, err)
	require.NoError(t, g.Sync())
	assertContent(t, s.path("a"), []byte("by f"))
	_, err = f.WriteString(", again")
	require.NoError(t, err)
	require.NoError(t, g.Sync())
	assertContent(t, s.path("a"), []byte("by f, again"))
}

// TestHoles checks writes far beyond the end, and reads of the gap.
func TestHoles(t *testing.T) {
	s, m := newMount(t)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	_, err := f.WriteAt([]byte("end"), 1<<20+5)
	require.NoError(t, err)
	want := append(make([]byte, 1<<20+5), "end"...)
	assertContent(t, m.path("a"), want)
	require.NoError(t, f.Truncate(3<<20))
	want = append(want, make([]byte, 3<<20-len(want))...)
	assertContent(t, m.path("a"), want)
	require.NoError(t, f.Truncate(10))
	_, err = f.WriteAt([]byte("x"), 20)
	require.NoError(t, err)
	want = append(make([]byte, 20), 'x')
	assertContent(t, m.path("a"), want)
	off, err := f.Seek(0, unix.SEEK_DATA)
	require.NoError(t, err)
	assert.Zero(t, off)
	off, err = f.Seek(0, unix.SEEK_HOLE)
	require.NoError(t, err)
	assert.EqualValues(t, len(want), off, "NFS version 3 reports no holes: the only hole is at the end")
	require.NoError(t, f.Close())
	assertContent(t, s.path("a"), want)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(m.path("a"), &st))
	assert.EqualValues(t, len(want), st.Size)
}

// TestTruncate checks all ways to truncate files.
func TestTruncate(t *testing.T) {
	s, m := newMount(t)
	writeFile(t, m.path("a"), randomBytes(10000))
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_TRUNC)
	assertContent(t, s.path("a"), nil)
	_, err := f.Write([]byte("abc"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(m.path("a"), 2)) // with data in flight
	assertContent(t, m.path("a"), []byte("ab"))
	assertContent(t, s.path("a"), []byte("ab"))
	require.NoError(t, f.Close())
	assertContent(t, s.path("a"), []byte("ab"))
	writeFile(t, m.path("a"), []byte("new"))
	assertContent(t, s.path("a"), []byte("new"))
}

// writeMapped is a child that writes text at offset 5000 of a file through a
// mapping, and reads the bytes before. It must be a separate process: the Go
// runtime takes a thread in a page fault for a running thread, and would wait
// for the thread before this process could answer the fault.
func writeMapped(args []string) error {
	f, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	if args[2] == "close" {
		if err := f.Close(); err != nil {
			return err
		}
	}
	copy(p[5000:], args[1])
	if _, err := os.Stdout.Write(p[:5000]); err != nil {
		return err
	}
	if args[2] == "sync" {
		return unix.Msync(p, unix.MS_SYNC)
	}
	return unix.Munmap(p)
}

// TestMmap checks reads and writes through mappings that are synced, unmapped,
// or outlive the descriptor.
func TestMmap(t *testing.T) {
	s, m := newMount(t)
	want := randomBytes(3*4096 + 100)
	writeFile(t, s.path("a"), want)
	for _, how := range []string{"sync", "unmap", "close"} {
		text := "by a mapping, and " + how
		before, err := newChild(t, nil, "mapped", m.path("a"), text, how).Output()
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want[:5000], before))
		copy(want[5000:], text)
		assertContent(t, m.path("a"), want)
	}
	require.NoError(t, m.Unmount())
	assertContent(t, s.path("a"), want)
}

// TestDirect checks that reads and writes with O_DIRECT are not cached.
func TestDirect(t *testing.T) {
	s, m := newMount(t)
	want := randomBytes(2<<20 + 100)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE|unix.O_DIRECT)
	_, err := f.Write(want)
	require.NoError(t, err)
	assertContent(t, s.path("a"), want)
	got := make([]byte, len(want)+10)
	n, _ := f.ReadAt(got, 0)
	assert.True(t, bytes.Equal(want, got[:n]))
	writeFile(t, s.path("a"), want[5:])
	n, _ = f.ReadAt(got, 0)
	assert.True(t, bytes.Equal(want[5:], got[:n]), "the server's present data")
	assert.Equal(t, len(want)-5, n)
	writeFile(t, s.path("a"), append(want, "more"...))
	n, _ = f.ReadAt(got, int64(len(want)))
	assert.Equal(t, "more", string(got[:n]), "beyond the old end")

	// Next to written data in flight.
	g := openAt(t, m.path("b"), os.O_RDWR|os.O_CREATE)
	_, err = g.Write([]byte("aaaaaaaaaa"))
	require.NoError(t, err)
	d := openAt(t, m.path("b"), os.O_RDWR|unix.O_DIRECT)
	_, err = d.WriteAt([]byte("bbb"), 3)
	require.NoError(t, err)
	assertContent(t, s.path("b"), []byte("aaabbbaaaa"))
}

// TestAppend checks that appending respects changes by others: the size at open
// counts, although attributes are cached for long.
func TestAppend(t *testing.T) {
	s, m := newMount(t)
	app := func(text string) {
		f, err := os.OpenFile(m.path("a"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		require.NoError(t, err)
		for _, c := range []byte(text) {
			_, err = f.Write([]byte{c})
			require.NoError(t, err)
		}
		require.NoError(t, f.Close())
	}
	app("one ")
	f := openAt(t, s.path("a"), os.O_WRONLY|os.O_APPEND)
	_, err := f.WriteString("two ")
	require.NoError(t, err)
	app("three ")
	assertContent(t, s.path("a"), []byte("one two three "))
	assertContent(t, m.path("a"), []byte("one two three "))
	require.NoError(t, os.Truncate(s.path("a"), 4))
	app("four")
	assertContent(t, s.path("a"), []byte("one four"))
	assertContent(t, m.path("a"), []byte("one four"))
}

// TestLocks checks file locks, which are local to the mount.
func TestLocks(t *testing.T) {
	_, m := newMount(t)
	f, g := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE), openAt(t, m.path("a"), os.O_RDWR)
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	assert.ErrorIs(t, unix.Flock(int(g.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_UN))
	require.NoError(t, unix.Flock(int(g.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: 10, Len: 5}
	require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock))
	assert.ErrorIs(t, unix.FcntlFlock(g.Fd(), unix.F_OFD_SETLK, &lock), unix.EAGAIN)
	lock.Start = 15
	assert.NoError(t, unix.FcntlFlock(g.Fd(), unix.F_OFD_SETLK, &lock))
}

// TestCopyRange checks copying within the mount, by copy_file_range and by
// reading and writing.
func TestCopyRange(t *testing.T) {
	s, m := newMount(t)
	want := randomBytes(1<<20 + 17)
	writeFile(t, m.path("a"), want)
	from, to := openAt(t, m.path("a"), os.O_RDONLY), openAt(t, m.path("b"), os.O_RDWR|os.O_CREATE)
	n, err := to.ReadFrom(from)
	require.NoError(t, err)
	assert.EqualValues(t, len(want), n)
	require.NoError(t, to.Close())
	assertContent(t, s.path("b"), want)
	assert.ErrorIs(t, unix.Fallocate(int(from.Fd()), 0, 0, 10), unix.EBADF) // not open for writing
	f := openAt(t, m.path("b"), os.O_RDWR)
	assert.ErrorIs(t, unix.Fallocate(int(f.Fd()), 0, 0, 10), unix.EOPNOTSUPP)
}

// TestWrittenSoon checks that data get to the server soon without fsync or close:
// syncfs(2) does not wait for them, because it does not come here.
func TestWrittenSoon(t *testing.T) {
	s, m := newMount(t)
	f := openAt(t, m.path("a"), os.O_WRONLY|os.O_CREATE)
	_, err := f.WriteString("data")
	require.NoError(t, err)
	require.NoError(t, unix.Syncfs(int(f.Fd())))
	assert.Eventually(t, func() bool { return mustLstat(t, s.path("a")).Size == 4 }, 3*time.Second, 10*time.Millisecond)
}
