package fusefs

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// holds asserts that a file has the given content.
func holds(t testing.TB, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, len(want), len(got), path)
	assert.True(t, bytes.Equal(want, got), path)
}

// put makes a file.
func put(t testing.TB, path string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, data, 0o644))
}

// open opens a file until the end of the test.
func open(t testing.TB, path string, flags int) *os.File {
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
		data := sample(size)
		name := fmt.Sprint(size)
		put(t, m.file(name), data)
		holds(t, s.file(name), data)
		holds(t, m.file(name), data)
		put(t, s.file("made"+name), data)
		holds(t, m.file("made"+name), data)
	}
}

// TestThrough checks that a mount with Sync writes and reads without delay.
func TestThrough(t *testing.T) {
	s := newServer(t, nil)
	m := s.mount(func(c *Config) { c.Sync = true })
	data := sample(3<<20 + 7)
	f := open(t, m.file("a"), os.O_RDWR|os.O_CREATE)
	_, err := f.Write(data)
	require.NoError(t, err)
	holds(t, s.file("a"), data) // before any close
	assert.Zero(t, m.calls(nfs3.ProcCommit))
	put(t, s.file("a"), data[1:])
	holds(t, m.file("a"), data[1:])
}

// TestSmallWrites checks small writes forward and backward, with reads in
// between.
func TestSmallWrites(t *testing.T) {
	s, m := newMount(t)
	want := sample(300 << 10)
	f := open(t, m.file("a"), os.O_RDWR|os.O_CREATE)
	for off := 0; off < len(want); off += 1000 {
		_, err := f.WriteAt(want[off:min(off+1000, len(want))], int64(off))
		require.NoError(t, err)
	}
	writes := m.calls(nfs3.ProcWrite)
	assert.Less(t, writes, 20, "small writes are gathered")
	holds(t, m.file("a"), want)
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
	holds(t, s.file("a"), want)
}

// TestSyncByReader checks that fsync of a read-only descriptor covers data
// written through another.
func TestSyncByReader(t *testing.T) {
	s, m := newMount(t)
	f := open(t, m.file("a"), os.O_RDWR|os.O_CREATE)
	g := open(t, m.file("a"), os.O_RDONLY)
	_, err := f.WriteString("by f")
	require.NoError(t, err)
	require.NoError(t, g.Sync())
	holds(t, s.file("a"), []byte("by f"))
	_, err = f.WriteString(", again")
	require.NoError(t, err)
	require.NoError(t, g.Sync())
	holds(t, s.file("a"), []byte("by f, again"))
}

// TestHoles checks writes far beyond the end, and reads of the gap.
func TestHoles(t *testing.T) {
	s, m := newMount(t)
	f := open(t, m.file("a"), os.O_RDWR|os.O_CREATE)
	_, err := f.WriteAt([]byte("end"), 1<<20+5)
	require.NoError(t, err)
	want := append(make([]byte, 1<<20+5), "end"...)
	holds(t, m.file("a"), want)
	require.NoError(t, f.Truncate(3<<20))
	want = append(want, make([]byte, 3<<20-len(want))...)
	holds(t, m.file("a"), want)
	require.NoError(t, f.Truncate(10))
	_, err = f.WriteAt([]byte("x"), 20)
	require.NoError(t, err)
	want = append(make([]byte, 20), 'x')
	holds(t, m.file("a"), want)
	off, err := f.Seek(0, unix.SEEK_DATA)
	require.NoError(t, err)
	assert.Zero(t, off)
	off, err = f.Seek(0, unix.SEEK_HOLE)
	require.NoError(t, err)
	assert.EqualValues(t, len(want), off, "NFS version 3 reports no holes: the only hole is at the end")
	require.NoError(t, f.Close())
	holds(t, s.file("a"), want)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(m.file("a"), &st))
	assert.EqualValues(t, len(want), st.Size)
}

// TestTruncate checks all ways to truncate files.
func TestTruncate(t *testing.T) {
	s, m := newMount(t)
	put(t, m.file("a"), sample(10000))
	f := open(t, m.file("a"), os.O_RDWR|os.O_TRUNC)
	holds(t, s.file("a"), nil)
	_, err := f.Write([]byte("abc"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(m.file("a"), 2)) // with data in flight
	holds(t, m.file("a"), []byte("ab"))
	holds(t, s.file("a"), []byte("ab"))
	require.NoError(t, f.Close())
	holds(t, s.file("a"), []byte("ab"))
	put(t, m.file("a"), []byte("new"))
	holds(t, s.file("a"), []byte("new"))
}

// mapped is a child that writes text at offset 5000 of a file through a
// mapping, and reads the bytes before. It must be a separate process: the Go
// runtime takes a thread in a page fault for a running thread, and would wait
// for the thread before this process could answer the fault.
func mapped(args []string) error {
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
	want := sample(3*4096 + 100)
	put(t, s.file("a"), want)
	for _, how := range []string{"sync", "unmap", "close"} {
		text := "by a mapping, and " + how
		before, err := child(t, nil, "mapped", m.file("a"), text, how).Output()
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want[:5000], before))
		copy(want[5000:], text)
		holds(t, m.file("a"), want)
	}
	require.NoError(t, m.Unmount())
	holds(t, s.file("a"), want)
}

// TestDirect checks that reads and writes with O_DIRECT are not cached.
func TestDirect(t *testing.T) {
	s, m := newMount(t)
	want := sample(2<<20 + 100)
	f := open(t, m.file("a"), os.O_RDWR|os.O_CREATE|unix.O_DIRECT)
	_, err := f.Write(want)
	require.NoError(t, err)
	holds(t, s.file("a"), want)
	got := make([]byte, len(want)+10)
	n, _ := f.ReadAt(got, 0)
	assert.True(t, bytes.Equal(want, got[:n]))
	put(t, s.file("a"), want[5:])
	n, _ = f.ReadAt(got, 0)
	assert.True(t, bytes.Equal(want[5:], got[:n]), "the server's present data")
	assert.Equal(t, len(want)-5, n)
	put(t, s.file("a"), append(want, "more"...))
	n, _ = f.ReadAt(got, int64(len(want)))
	assert.Equal(t, "more", string(got[:n]), "beyond the old end")

	// Next to written data in flight.
	g := open(t, m.file("b"), os.O_RDWR|os.O_CREATE)
	_, err = g.Write([]byte("aaaaaaaaaa"))
	require.NoError(t, err)
	d := open(t, m.file("b"), os.O_RDWR|unix.O_DIRECT)
	_, err = d.WriteAt([]byte("bbb"), 3)
	require.NoError(t, err)
	holds(t, s.file("b"), []byte("aaabbbaaaa"))
}

// TestAppend checks that appending respects changes by others: the size at open
// counts, although attributes are believed for long.
func TestAppend(t *testing.T) {
	s, m := newMount(t)
	app := func(text string) {
		f, err := os.OpenFile(m.file("a"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		require.NoError(t, err)
		for _, c := range []byte(text) {
			_, err = f.Write([]byte{c})
			require.NoError(t, err)
		}
		require.NoError(t, f.Close())
	}
	app("one ")
	f := open(t, s.file("a"), os.O_WRONLY|os.O_APPEND)
	_, err := f.WriteString("two ")
	require.NoError(t, err)
	app("three ")
	holds(t, s.file("a"), []byte("one two three "))
	holds(t, m.file("a"), []byte("one two three "))
	require.NoError(t, os.Truncate(s.file("a"), 4))
	app("four")
	holds(t, s.file("a"), []byte("one four"))
	holds(t, m.file("a"), []byte("one four"))
}

// TestLocks checks file locks, which are local to the mount.
func TestLocks(t *testing.T) {
	_, m := newMount(t)
	f, g := open(t, m.file("a"), os.O_RDWR|os.O_CREATE), open(t, m.file("a"), os.O_RDWR)
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
	want := sample(1<<20 + 17)
	put(t, m.file("a"), want)
	from, to := open(t, m.file("a"), os.O_RDONLY), open(t, m.file("b"), os.O_RDWR|os.O_CREATE)
	n, err := to.ReadFrom(from)
	require.NoError(t, err)
	assert.EqualValues(t, len(want), n)
	require.NoError(t, to.Close())
	holds(t, s.file("b"), want)
	assert.ErrorIs(t, unix.Fallocate(int(from.Fd()), 0, 0, 10), unix.EBADF) // not open for writing
	f := open(t, m.file("b"), os.O_RDWR)
	assert.ErrorIs(t, unix.Fallocate(int(f.Fd()), 0, 0, 10), unix.EOPNOTSUPP)
}
