package fusefs

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// createFiles creates files in a directory of the server.
func (s *testServer) createFiles(count int) (names []string) {
	s.t.Helper()
	for i := range count {
		name := fmt.Sprintf("file-%05d", i)
		require.NoError(s.t, os.WriteFile(s.path(name), nil, 0o644))
		names = append(names, name)
	}
	return names
}

// TestLongListing checks a listing of 10,000 entries while some of them are
// removed, and others added.
func TestLongListing(t *testing.T) {
	s, m := newMount(t)
	names := s.createFiles(10_000)
	got := listNames(t, m.dir)
	assert.Equal(t, names, got)

	d, err := os.Open(m.dir)
	require.NoError(t, err)
	defer d.Close()
	seen := make(map[string]int)
	for i := 0; ; i++ {
		some, err := d.Readdirnames(100)
		for _, name := range some {
			seen[name]++
			switch i % 20 {
			case 0:
				require.NoError(t, os.Remove(m.path(name)))
			case 1:
				writeFile(t, m.path("new"+name), nil)
			}
		}
		if err != nil {
			break
		}
	}
	for _, name := range names {
		assert.Equal(t, 1, seen[name], name)
	}
	assert.Equal(t, slices.Sorted(slices.Values(listNames(t, s.dir))), listNames(t, m.dir))
}

// TestSeekDir checks seeking back in a listing, to the start and to an offset
// within.
func TestSeekDir(t *testing.T) {
	s, m := newMount(t)
	s.createFiles(2000)
	fd, err := unix.Open(m.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	read := func() (names []string) {
		p := make([]byte, 4096)
		n, err := unix.ReadDirent(fd, p)
		require.NoError(t, err)
		_, _, names = unix.ParseDirent(p[:n], -1, nil)
		return names
	}
	first, second := read(), read()
	place, err := unix.Seek(fd, 0, unix.SEEK_CUR)
	require.NoError(t, err)
	third := read()
	for range 20 {
		read()
	}
	_, err = unix.Seek(fd, place, unix.SEEK_SET)
	require.NoError(t, err)
	assert.Equal(t, third, read())
	writeFile(t, s.path("aaa"), nil) // the next listing must show it
	_, err = unix.Seek(fd, 0, unix.SEEK_SET)
	require.NoError(t, err)
	assert.NotEqual(t, second, first)
	again := read()
	for len(again) < len(first)+1 {
		again = append(again, read()...)
	}
	var all []string
	for some := again; len(some) > 0; some = read() {
		all = append(all, some...)
	}
	assert.Contains(t, all, "aaa")
	assert.Len(t, all, 2001)
}

// TestListingKnows checks that listing files and calling lstat for each, as ls
// -l does, costs few calls besides those of the listing.
func TestListingKnows(t *testing.T) {
	s, m := newMount(t)
	s.createFiles(1000)
	before := m.callCount(nfs3.ProcLookup) + m.callCount(nfs3.ProcGetAttr)
	d, err := os.Open(m.dir)
	require.NoError(t, err)
	defer d.Close()
	for {
		names, err := d.Readdirnames(20)
		if err != nil {
			break
		}
		for _, name := range names {
			mustLstat(t, m.path(name))
		}
	}
	assert.Less(t, m.callCount(nfs3.ProcLookup)+m.callCount(nfs3.ProcGetAttr)-before, 300)
}

// A fakeOddFS has odd listings.
type fakeOddFS struct {
	vfs.FS
	high   uint64 // bits that all cookies have set
	bad    atomic.Int32
	noPlus bool

	from string // names from this on are invalid
}

func (f *fakeOddFS) ReadDir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, cookie, verifier uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
	if plus && f.noPlus {
		return vfs.MaybeAttr{}, 0, false, unix.EOPNOTSUPP
	}
	if cookie != 0 && f.bad.Add(-1) >= 0 {
		return vfs.MaybeAttr{}, 0, false, vfs.ErrBadCookie
	}
	return f.FS.ReadDir(ctx, c, dir, cookie&^f.high, verifier, plus, func(e *vfs.Entry) bool {
		x := *e
		x.Cookie |= f.high
		if f.from != "" && string(x.Name) >= f.from {
			x.Name = append([]byte("a/"), x.Name...)
		}
		return fn(&x)
	})
}

// TestOddListings checks listings with cookies that are no valid offsets, from
// a server that forgets cookies, and from one without READDIRPLUS.
func TestOddListings(t *testing.T) {
	for name, odd := range map[string]*fakeOddFS{"big cookies": {high: firstBig}, "no plus": {noPlus: true}, "forgetful": {}, "forgetful, big": {high: firstBig}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, func(fs vfs.FS) vfs.FS { odd.FS = fs; return odd })
			m := s.mount(nil)
			names := s.createFiles(2000)
			if name[0] == 'f' {
				odd.bad.Store(2)
			}
			assert.Equal(t, names, listNames(t, m.dir))
			for _, n := range names[:50] {
				require.NoError(t, os.Remove(m.path(n)))
			}
			assert.Equal(t, names[50:], listNames(t, m.dir))
		})
	}
}

// TestInvalidNames checks that a name which the kernel would reject is hidden, but
// not the rest of its directory.
func TestInvalidNames(t *testing.T) {
	odd := &fakeOddFS{from: "x"}
	s := newServer(t, func(fs vfs.FS) vfs.FS { odd.FS = fs; return odd })
	m := s.mount(nil)
	for _, name := range []string{"a", "b", "x", "c", "y", "z"} {
		writeFile(t, s.path(name), nil)
	}
	assert.Equal(t, []string{"a", "b", "c"}, listNames(t, m.dir))
	assert.NotZero(t, m.lastLogged.Load(), "it is logged")
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, os.Remove(m.path(name)))
	}
	assert.Empty(t, listNames(t, m.dir))
	for _, name := range s.createFiles(1000) {
		require.NoError(t, os.Rename(s.path(name), s.path("z"+name)))
	}
	assert.Empty(t, listNames(t, m.dir), "pages without a valid name")
}

// TestLostPlace checks that a listing fails if the server never knows the
// cookie again.
func TestLostPlace(t *testing.T) {
	odd := &fakeOddFS{}
	s := newServer(t, func(fs vfs.FS) vfs.FS { odd.FS = fs; return odd })
	m := s.mount(nil)
	s.createFiles(3000)
	odd.bad.Store(1 << 30)
	_, err := os.ReadDir(m.dir)
	assert.ErrorIs(t, err, unix.EIO)
	odd.bad.Store(0)
	assert.Len(t, listNames(t, m.dir), 3000)
}

// TestOffsets checks that each cookie gets an offset, and no two cookies the
// same one.
func TestOffsets(t *testing.T) {
	for _, narrow := range []bool{false, true} {
		d := &offsets{is32Bit: func() bool { return narrow }}
		seen := make(map[uint64]uint64)
		for _, cookie := range []uint64{
			1, 2, 1<<30 - 1, 1 << 30, 1<<30 + 1, 1 << 31, 1 << 32, 1<<32 + 1, 1<<62 + 7, 1<<63 - 1, 1<<63 + 11, 1<<63 + 5, ^uint64(0) - 1,
		} {
			off := d.offsetOf(cookie)
			assert.NotZero(t, off)
			assert.Equal(t, off, d.offsetOf(cookie))
			got, ok := d.cookieAt(off)
			assert.True(t, ok)
			assert.Equal(t, cookie, got)
			_, twice := seen[off]
			assert.False(t, twice, cookie)
			seen[off] = cookie
			switch {
			case narrow:
				assert.Less(t, off, uint64(1<<31))
			case cookie < firstBig:
				assert.Equal(t, cookie, off, "the offset holds in another open directory")
			default:
				assert.Less(t, off, uint64(1<<63))
			}
		}
	}
}

// TestWideCookies checks that a very long listing of a 32-bit program takes no
// more memory than its latest places.
func TestWideCookies(t *testing.T) {
	d := &offsets{is32Bit: func() bool { return true }}
	first := d.offsetOf(1 << 40)
	var last uint64
	for i := range uint64(3 * maxWide) {
		last = d.offsetOf(1<<41 + i)
		require.Less(t, last, uint64(1<<31))
	}
	assert.Len(t, d.wide.numbers, maxWide)
	assert.Len(t, d.wide.ring, maxWide)
	_, ok := d.cookieAt(first)
	assert.False(t, ok)
	for i := range uint64(maxWide) {
		got, ok := d.cookieAt(last - i)
		require.True(t, ok)
		require.Equal(t, uint64(1<<41+3*maxWide-1)-i, got)
	}
	d.rewind()
	_, ok = d.cookieAt(last)
	assert.False(t, ok)
	d.wide.next = endNarrow - firstWide - 1
	d.wide.ring = make([]uint64, maxWide)
	assert.Less(t, d.offsetOf(5<<40), uint64(1<<31))
	assert.Less(t, d.offsetOf(6<<40), uint64(1<<31))
}

// TestSeekOf32BitProgram checks that a program with 32 bits gets offsets that it can
// read, and that it can go back to each of them, while the directory changes.
func TestSeekOf32BitProgram(t *testing.T) {
	s := newServer(t, func(fs vfs.FS) vfs.FS { return &fakeOddFS{FS: fs, high: 1 << 40} })
	m := s.mount(nil)
	names := s.createFiles(20_000)
	fd, err := unix.Open(m.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	m.files.mu.Lock()
	for _, d := range m.files.dirs {
		d.mu.Lock()
		d.is32Bit = func() bool { return true }
		d.mu.Unlock()
	}
	m.files.mu.Unlock()
	var got []string
	var places []int64 // before each name
	read := func(fd int) (names []string, places []int64) {
		p := make([]byte, 8<<10)
		n, err := unix.ReadDirent(fd, p)
		require.NoError(t, err)
		for b := p[:n]; len(b) > 0; b = b[direntLen(b):] {
			_, _, some := unix.ParseDirent(b[:direntLen(b)], 1, nil)
			names = append(names, some...)
			if len(some) > 0 {
				places = append(places, direntOffset(b))
			}
		}
		return names, places
	}
	for {
		some, offsets := read(fd)
		if len(some) == 0 {
			break
		}
		got, places = append(got, some...), append(places, offsets...)
	}
	require.Equal(t, names, slices.Sorted(slices.Values(got)))
	for _, off := range places {
		require.Less(t, off, int64(1<<31))
	}
	for i := 0; i < len(got)-1; i += len(got) / 200 {
		_, err := unix.Seek(fd, places[i], unix.SEEK_SET)
		require.NoError(t, err)
		some, _ := read(fd)
		require.Equal(t, got[i+1], some[0])
	}
	half := len(got) / 2
	for i, name := range got[:half] {
		if i%10 != 0 {
			require.NoError(t, os.Remove(s.path(name)))
		}
	}
	_, err = unix.Seek(fd, places[half-1], unix.SEEK_SET)
	require.NoError(t, err)
	var rest []string
	for some, _ := read(fd); len(some) > 0; some, _ = read(fd) {
		rest = append(rest, some...)
	}
	assert.Equal(t, got[half:], rest)
	_, err = unix.Seek(fd, 0, unix.SEEK_SET)
	require.NoError(t, err)
	rest = nil
	for some, _ := read(fd); len(some) > 0; some, _ = read(fd) {
		rest = append(rest, some...)
	}
	assert.Len(t, rest, len(listNames(t, s.dir)))
}

// TestOffsetsOutliveOpenDirectory checks that an offset of a program with 64 bits
// leads to the same place of another open directory, as an NFS server needs it that
// exports the mount.
func TestOffsetsOutliveOpenDirectory(t *testing.T) {
	s := newServer(t, func(fs vfs.FS) vfs.FS { return &fakeOddFS{FS: fs, high: 1 << 40} })
	m := s.mount(nil)
	s.createFiles(3000)
	var place int64
	var want, got []byte
	for i, into := range []*[]byte{&want, &got} {
		fd, err := unix.Open(m.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		p := make([]byte, 4096)
		if i == 0 {
			for range 5 {
				_, err := unix.ReadDirent(fd, p)
				require.NoError(t, err)
			}
			place, err = unix.Seek(fd, 0, unix.SEEK_CUR)
		} else {
			_, err = unix.Seek(fd, place, unix.SEEK_SET)
		}
		require.NoError(t, err)
		n, err := unix.ReadDirent(fd, p)
		require.NoError(t, err)
		*into = p[:n]
		require.NoError(t, unix.Close(fd))
	}
	assert.Equal(t, want, got)
}

// TestIs32Bit checks which processes count as having 32 bits. The vectors are the
// first words of /proc/PID/auxv of processes of Linux 6.1 on x86-64.
func TestIs32Bit(t *testing.T) {
	word := binary.NativeEndian.AppendUint32
	long := binary.NativeEndian.AppendUint64
	assert.True(t, is32BitVector(word(word(word(nil, 32), 0xf7f8f570), 33)), "AT_SYSINFO")
	assert.False(t, is32BitVector(long(long(nil, 33), 0x7ffd8a5f2000)), "AT_SYSINFO_EHDR")
	assert.False(t, is32BitVector(nil), "a thread of the kernel")
	assert.False(t, is32Bit(uint32(os.Getpid())))
	assert.False(t, is32Bit(0))
}
