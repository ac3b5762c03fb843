package vfstest

import (
	"fmt"
	"math"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// many is more entries than a server reads at once, with names as long as
// fill's.
const many = 250

// fill creates n files with long names in the root.
func (r *rig) fill(n int) (names []string) {
	r.Helper()
	for i := range n {
		names = append(names, fmt.Sprintf("%0200d", i))
	}
	if r.b.Fill != nil {
		r.b.Fill(r.T, r.fs, names)
		return names
	}
	for _, name := range names {
		r.file(r.root, name, "")
	}
	return names
}

func testReadDir(r *rig) {
	d := r.dir(r.root, "d")
	f := r.file(d, "f", "")
	ids := map[string]uint64{".": r.attr(d).FileID, "..": r.attr(r.root).FileID, "f": r.attr(f).FileID}
	got := make(map[string]uint64)
	for _, e := range r.list(d, 100, false) {
		got[e.name] = e.FileID
		assert.False(r, e.HasHandle, "not requested")
		assert.False(r, e.Attr.OK)
	}
	assert.Equal(r, ids, got)
	for _, e := range r.list(r.root, 100, true) {
		if e.name != "d" {
			assert.Equal(r, r.attr(r.root).FileID, e.FileID, "%s of the root is the root", e.name)
			assert.Equal(r, r.root, e.Handle)
		}
	}
	a, _, eof, err := r.fs.ReadDir(r.ctx, r.c, d, 0, 0, false, func(*vfs.Entry) bool { return false })
	require.NoError(r, err)
	assert.False(r, eof, "a refused entry is returned next")
	assert.Equal(r, r.attr(d).FileID, a.FileID)
}

// testReadDirPieces checks that each entry is listed once, in pieces of any
// size.
func testReadDirPieces(r *rig) {
	want := append(r.fill(many), ".", "..")
	for _, piece := range []int{1 << 30, 97, 3} {
		var got []string
		for _, e := range r.list(r.root, piece, piece == 97) {
			got = append(got, e.name)
		}
		assert.ElementsMatch(r, want, got, "pieces of %d", piece)
	}
}

// testReadDirChanging checks that lasting entries are listed once while other
// entries are added and removed.
func testReadDirChanging(r *rig) {
	d := r.root
	stay := r.fill(many)
	for i := range 30 {
		r.file(d, fmt.Sprint("goes", i), "")
	}
	seen := make(map[string]int)
	var cookie, verifier uint64
	for i, eof := 0, false; !eof; i++ {
		n := 0
		var err error
		_, verifier, eof, err = r.fs.ReadDir(r.ctx, r.c, d, cookie, verifier, true, func(e *vfs.Entry) bool {
			seen[string(e.Name)]++
			cookie = e.Cookie
			n++
			return n < 20
		})
		require.NoError(r, err)
		if i < 30 {
			r.remove(d, fmt.Sprint("goes", i))
			r.file(d, fmt.Sprint("comes", i), "")
		}
	}
	for _, name := range stay {
		assert.Equal(r, 1, seen[name], name)
	}
}

func testReadDirPlus(r *rig) {
	d := r.root
	names := r.fill(200)
	r.dir(d, "dir")
	_, err := r.fs.Symlink(r.ctx, r.c, d, "link", "t", vfs.SetAttr{})
	require.NoError(r, err)
	_, err = r.fs.Mknod(r.ctx, r.c, d, "fifo", vfs.TypeFIFO, vfs.Dev{}, mode(0o600))
	require.NoError(r, err)
	list := r.list(d, 50, true)
	assert.Len(r, list, len(names)+5)
	for _, e := range list {
		require.True(r, e.HasHandle, e.name)
		require.True(r, e.Attr.OK, e.name)
		assert.Equal(r, r.lookup(d, e.name), e.Handle, e.name)
		a := r.attr(e.Handle)
		e.Attr.Atime, a.Atime = vfs.Time{}, vfs.Time{} // listing a directory changes its atime
		assert.Equal(r, a, e.Attr.Attr, e.name)
		assert.Equal(r, a.FileID, e.FileID, e.name)
	}
}

func testReadDirCookies(r *rig) {
	d := r.root
	r.fill(10)
	last := uint64(0)
	for _, e := range r.list(d, 100, false) {
		assert.NotZero(r, e.Cookie, "0 is the start")
		last = e.Cookie
	}
	_, _, eof, err := r.fs.ReadDir(r.ctx, r.c, d, last, 0, false, func(e *vfs.Entry) bool {
		assert.Fail(r, "an entry behind the last", string(e.Name))
		return true
	})
	require.NoError(r, err)
	assert.True(r, eof)
	// An unknown cookie is an error or continues the listing anywhere, but does
	// no harm.
	for _, cookie := range []uint64{1 << 40, math.MaxInt64, 1 << 63, math.MaxUint64} {
		n := 0
		_, _, _, err := r.fs.ReadDir(r.ctx, r.c, d, cookie, 0, true, func(*vfs.Entry) bool {
			n++
			return true
		})
		if err != nil {
			assert.ErrorIs(r, err, vfs.ErrBadCookie)
		}
		assert.LessOrEqual(r, n, 12)
	}
	_, _, _, err = r.fs.ReadDir(r.ctx, r.c, d, last, 0x1234, false, func(*vfs.Entry) bool { return true })
	assert.ErrorIs(r, err, vfs.ErrBadCookie, "an unknown verifier")
}
