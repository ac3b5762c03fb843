package vfstest

import (
	"fmt"
	"math"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// many is more entries than a server reads at once, with names as long as createFiles'.
const many = 250

// createFiles creates n files with long names in the root.
func (r *testFS) createFiles(n int) (names []string) {
	r.Helper()
	for i := range n {
		names = append(names, fmt.Sprintf("%0200d", i))
	}
	if r.b.Fill != nil {
		r.b.Fill(r.T, r.fs, names)
		return names
	}
	for _, name := range names {
		r.createFile(r.root, name, "")
	}
	return names
}

func testReadDir(r *testFS) {
	d := r.createDir(r.root, "d")
	f := r.createFile(d, "f", "")
	ids := map[string]uint64{".": r.getAttr(d).FileID, "..": r.getAttr(r.root).FileID, "f": r.getAttr(f).FileID}
	got := make(map[string]uint64)
	for _, e := range r.listDir(d, 100, false) {
		got[e.name] = e.FileID
		assert.False(r, e.HasHandle, "not requested")
		assert.False(r, e.Attr.OK)
	}
	assert.Equal(r, ids, got)
	for _, e := range r.listDir(r.root, 100, true) {
		if e.name != "d" {
			assert.Equal(r, r.getAttr(r.root).FileID, e.FileID, "%s of the root is the root", e.name)
			assert.Equal(r, r.root, e.Handle)
		}
	}
	a, _, eof, err := r.fs.ReadDir(r.ctx, r.c, d, 0, 0, false, func(*vfs.Entry) bool { return false })
	require.NoError(r, err)
	assert.False(r, eof, "a refused entry is returned next")
	assert.Equal(r, r.getAttr(d).FileID, a.FileID)
}

// testReadDirPieces checks that each entry is listed once, in pieces of any
// size.
func testReadDirPieces(r *testFS) {
	want := append(r.createFiles(many), ".", "..")
	for _, piece := range []int{1 << 30, 97, 3} {
		var got []string
		for _, e := range r.listDir(r.root, piece, piece == 97) {
			got = append(got, e.name)
		}
		assert.ElementsMatch(r, want, got, "pieces of %d", piece)
	}
}

// testReadDirChanging checks that lasting entries are listed once while other
// entries are added and removed.
func testReadDirChanging(r *testFS) {
	d := r.root
	stay := r.createFiles(many)
	for i := range 30 {
		r.createFile(d, fmt.Sprint("goes", i), "")
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
			r.removeFile(d, fmt.Sprint("goes", i))
			r.createFile(d, fmt.Sprint("comes", i), "")
		}
	}
	for _, name := range stay {
		assert.Equal(r, 1, seen[name], name)
	}
}

func testReadDirPlus(r *testFS) {
	d := r.root
	names := r.createFiles(200)
	r.createDir(d, "dir")
	_, err := r.fs.Symlink(r.ctx, r.c, d, "link", "t", vfs.SetAttr{})
	require.NoError(r, err)
	_, err = r.fs.Mknod(r.ctx, r.c, d, "fifo", vfs.TypeFIFO, vfs.Dev{}, modeAttr(0o600))
	require.NoError(r, err)
	list := r.listDir(d, 50, true)
	assert.Len(r, list, len(names)+5)
	for _, e := range list {
		require.True(r, e.HasHandle, e.name)
		require.True(r, e.Attr.OK, e.name)
		assert.Equal(r, r.lookupName(d, e.name), e.Handle, e.name)
		a := r.getAttr(e.Handle)
		e.Attr.Atime, a.Atime = vfs.Time{}, vfs.Time{} // listing a directory changes its atime
		assert.Equal(r, a, e.Attr.Attr, e.name)
		assert.Equal(r, a.FileID, e.FileID, e.name)
	}
}

func testReadDirCookies(r *testFS) {
	d := r.root
	r.createFiles(10)
	last := uint64(0)
	for _, e := range r.listDir(d, 100, false) {
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
