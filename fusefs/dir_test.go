package fusefs

import (
	"context"
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

// fill makes files in a directory of the server.
func (s *server) fill(count int) (names []string) {
	s.t.Helper()
	for i := range count {
		name := fmt.Sprintf("file-%05d", i)
		require.NoError(s.t, os.WriteFile(s.file(name), nil, 0o644))
		names = append(names, name)
	}
	return names
}

// TestLongListing checks a listing of 10,000 entries while some of them are
// removed, and others added.
func TestLongListing(t *testing.T) {
	s, m := newMount(t)
	names := s.fill(10_000)
	got := list(t, m.dir)
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
				require.NoError(t, os.Remove(m.file(name)))
			case 1:
				put(t, m.file("new"+name), nil)
			}
		}
		if err != nil {
			break
		}
	}
	for _, name := range names {
		assert.Equal(t, 1, seen[name], name)
	}
	assert.Equal(t, slices.Sorted(slices.Values(list(t, s.back))), list(t, m.dir))
}

// TestSeekDir checks seeking back in a listing, to the start and to an offset
// within.
func TestSeekDir(t *testing.T) {
	s, m := newMount(t)
	s.fill(2000)
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
	put(t, s.file("aaa"), nil) // the next listing must show it
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
	s.fill(1000)
	before := m.calls(nfs3.ProcLookup) + m.calls(nfs3.ProcGetAttr)
	d, err := os.Open(m.dir)
	require.NoError(t, err)
	defer d.Close()
	for {
		names, err := d.Readdirnames(20)
		if err != nil {
			break
		}
		for _, name := range names {
			lstat(t, m.file(name))
		}
	}
	assert.Less(t, m.calls(nfs3.ProcLookup)+m.calls(nfs3.ProcGetAttr)-before, 300)
}

// An oddFS has odd listings.
type oddFS struct {
	vfs.FS
	big    bool // cookies have the highest bit set
	bad    atomic.Int32
	noPlus bool
}

func (f *oddFS) ReadDir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, cookie, verifier uint64, plus bool, fn func(*vfs.Entry) bool) (vfs.MaybeAttr, uint64, bool, error) {
	const high = 1 << 63
	if plus && f.noPlus {
		return vfs.MaybeAttr{}, 0, false, unix.EOPNOTSUPP
	}
	if cookie != 0 && f.bad.Add(-1) >= 0 {
		return vfs.MaybeAttr{}, 0, false, vfs.ErrBadCookie
	}
	return f.FS.ReadDir(ctx, c, dir, cookie&^high, verifier, plus, func(e *vfs.Entry) bool {
		x := *e
		if f.big {
			x.Cookie |= high
		}
		return fn(&x)
	})
}

// TestOddListings checks listings with cookies that are no valid offsets, from
// a server that forgets cookies, and from one without READDIRPLUS.
func TestOddListings(t *testing.T) {
	for name, odd := range map[string]*oddFS{"big cookies": {big: true}, "no plus": {noPlus: true}, "forgetful": {}, "forgetful, big": {big: true}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, func(fs vfs.FS) vfs.FS { odd.FS = fs; return odd })
			m := s.mount(nil)
			names := s.fill(2000)
			if name[0] == 'f' {
				odd.bad.Store(2)
			}
			assert.Equal(t, names, list(t, m.dir))
			for _, n := range names[:50] {
				require.NoError(t, os.Remove(m.file(n)))
			}
			assert.Equal(t, names[50:], list(t, m.dir))
		})
	}
}

// TestLostPlace checks that a listing fails if the server never knows the
// cookie again.
func TestLostPlace(t *testing.T) {
	odd := &oddFS{}
	s := newServer(t, func(fs vfs.FS) vfs.FS { odd.FS = fs; return odd })
	m := s.mount(nil)
	s.fill(3000)
	odd.bad.Store(1 << 30)
	_, err := os.ReadDir(m.dir)
	assert.ErrorIs(t, err, unix.EIO)
	odd.bad.Store(0)
	assert.Len(t, list(t, m.dir), 3000)
}

// TestOffsets checks that each cookie gets an offset, and no two cookies the
// same one.
func TestOffsets(t *testing.T) {
	d := &dir{}
	seen := make(map[uint64]uint64)
	for _, cookie := range []uint64{1, 2, 1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<63 + 5, ^uint64(0)} {
		off := d.offset(cookie)
		assert.Less(t, off, uint64(1<<63))
		assert.NotZero(t, off)
		assert.Equal(t, off, d.offset(cookie))
		if cookie >= firstBig {
			assert.Equal(t, cookie, d.cookie(off))
			_, twice := seen[off]
			assert.False(t, twice)
			seen[off] = cookie
		}
	}
}
