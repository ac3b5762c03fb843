package vfstest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

func testRemove(r *rig) {
	f := r.file(r.root, "f", "data")
	_, err := r.fs.Symlink(r.ctx, r.c, r.root, "l", "f", vfs.SetAttr{})
	require.NoError(r, err)
	r.remove(r.root, "l")
	assert.Equal(r, "data", r.read(f), "the link was removed, not the file")
	r.remove(r.root, "f")
	r.absent(r.root, "f")
	r.stale(f)
	_, err = r.fs.Remove(r.ctx, r.c, r.root, "f")
	assert.ErrorIs(r, err, errNoEnt)
	r.dir(r.root, "d")
	_, err = r.fs.Remove(r.ctx, r.c, r.root, "d")
	assert.Error(r, err, "REMOVE refuses a directory")
	assert.Equal(r, []string{"d"}, r.names(r.root))
}

func testRmdir(r *rig) {
	d := r.dir(r.root, "d")
	r.file(d, "f", "")
	_, err := r.fs.Rmdir(r.ctx, r.c, r.root, "d")
	assert.ErrorIs(r, err, errNotEmpty)
	_, err = r.fs.Rmdir(r.ctx, r.c, d, "f")
	assert.ErrorIs(r, err, errNotDir)
	r.remove(d, "f")
	r.rmdir(r.root, "d")
	r.stale(d)
	_, err = r.fs.Create(r.ctx, r.c, d, "late", guarded(0o644))
	assert.ErrorIs(r, err, errStale)
	_, err = r.fs.Rmdir(r.ctx, r.c, r.root, "d")
	assert.ErrorIs(r, err, errNoEnt)
}

func testRename(r *rig) {
	d, e := r.dir(r.root, "d"), r.dir(r.root, "e")
	f := r.file(d, "f", "data")
	r.rename(d, "f", d, "g")
	r.absent(d, "f")
	assert.Equal(r, f, r.lookup(d, "g"))
	r.rename(d, "g", e, "h")
	r.absent(d, "g")
	assert.Equal(r, f, r.lookup(e, "h"))
	assert.Equal(r, "data", r.read(f))
	r.rename(e, "h", e, "h")
	assert.Equal(r, f, r.lookup(e, "h"))

	r.rename(r.root, "d", e, "d")
	assert.Equal(r, d, r.lookup(e, "d"))
	assert.Equal(r, e, r.lookup(d, ".."))
	_, _, err := r.fs.Rename(r.ctx, r.c, r.root, "e", d, "inside")
	assert.ErrorIs(r, err, errInval, "a directory into itself")
	_, _, err = r.fs.Rename(r.ctx, r.c, r.root, "none", r.root, "x")
	assert.ErrorIs(r, err, errNoEnt)
	for _, dot := range []string{".", ".."} {
		_, _, err = r.fs.Rename(r.ctx, r.c, e, dot, e, "x")
		assert.ErrorIs(r, err, errInval) // RFC 1813, Section 3.3.14
		_, _, err = r.fs.Rename(r.ctx, r.c, e, "h", e, dot)
		assert.ErrorIs(r, err, errInval)
	}
}

func testRenameOver(r *rig) {
	a, b := r.file(r.root, "a", "a"), r.file(r.root, "b", "b")
	assert.Equal(r, "b", r.read(b)) // opens the file
	r.rename(r.root, "a", r.root, "b")
	assert.Equal(r, a, r.lookup(r.root, "b"))
	assert.Equal(r, []string{"b"}, r.names(r.root))
	r.stale(b)

	r.link(a, r.root, "c")
	r.rename(r.root, "b", r.root, "c")
	assert.ElementsMatch(r, []string{"b", "c"}, r.names(r.root), "two names of one file: no effect")
	assert.Equal(r, "a", r.read(a))

	full, empty := r.dir(r.root, "full"), r.dir(r.root, "empty")
	r.file(full, "f", "")
	_, _, err := r.fs.Rename(r.ctx, r.c, r.root, "empty", r.root, "full")
	assert.ErrorIs(r, err, errNotEmpty)
	_, _, err = r.fs.Rename(r.ctx, r.c, r.root, "c", r.root, "empty")
	assert.ErrorIs(r, err, errIsDir)
	_, _, err = r.fs.Rename(r.ctx, r.c, r.root, "empty", r.root, "c")
	assert.ErrorIs(r, err, errNotDir)
	r.rename(r.root, "full", r.root, "empty")
	assert.Equal(r, full, r.lookup(r.root, "empty"))
	r.stale(empty)
}

func testLink(r *rig) {
	d := r.dir(r.root, "d")
	f := r.file(r.root, "f", "data")
	obj, _, err := r.fs.Link(r.ctx, r.c, f, d, "g")
	require.NoError(r, err)
	assert.EqualValues(r, 2, obj.Nlink)
	assert.Equal(r, f, r.lookup(d, "g"), "one object, one handle")
	_, _, err = r.fs.Link(r.ctx, r.c, f, d, "g")
	assert.ErrorIs(r, err, errExist)
	_, _, err = r.fs.Link(r.ctx, r.c, d, r.root, "dirlink")
	assert.Error(r, err, "directories have a single name")
	_, _, err = r.fs.Link(r.ctx, r.c, f, f, "x")
	assert.ErrorIs(r, err, errNotDir)

	r.remove(r.root, "f")
	assert.EqualValues(r, 1, r.attr(f).Nlink)
	assert.Equal(r, "data", r.read(f))
	r.remove(d, "g")
	r.stale(f)

	m, err := r.fs.Symlink(r.ctx, r.c, r.root, "l", "nowhere", vfs.SetAttr{})
	require.NoError(r, err)
	r.link(m.Handle, d, "l2")
	assert.Equal(r, m.Handle, r.lookup(d, "l2"), "the link itself, not its target")
}

func testWrongTypes(r *rig) {
	f := r.file(r.root, "f", "")
	m, err := r.fs.Symlink(r.ctx, r.c, r.root, "l", ".", vfs.SetAttr{})
	require.NoError(r, err)
	for _, h := range []vfs.Handle{r.root, m.Handle} {
		_, _, _, err := r.fs.Read(r.ctx, r.c, h, make([]byte, 1), 0)
		assert.ErrorIs(r, err, errInval) // RFC 1813, Section 3.3.6
		_, _, w, err := r.fs.Write(r.ctx, r.c, h, []byte("x"), 0, vfs.Unstable)
		assert.ErrorIs(r, err, errInval)
		assert.True(r, w.After.OK, "attributes with an error")
	}
	for _, h := range []vfs.Handle{f, m.Handle} {
		_, _, _, err := r.fs.ReadDir(r.ctx, r.c, h, 0, 0, false, func(*vfs.Entry) bool { return true })
		assert.ErrorIs(r, err, errNotDir)
		_, err = r.fs.Remove(r.ctx, r.c, h, "x")
		assert.ErrorIs(r, err, errNotDir)
		_, _, err = r.fs.Rename(r.ctx, r.c, h, "x", r.root, "y")
		assert.ErrorIs(r, err, errNotDir)
		_, _, err = r.fs.Rename(r.ctx, r.c, r.root, "f", h, "y")
		assert.ErrorIs(r, err, errNotDir)
	}
	_, err = r.fs.SetAttr(r.ctx, r.c, r.root, vfs.SetAttr{Size: ptr(uint64(0))}, nil)
	assert.ErrorIs(r, err, errIsDir)
	_, err = r.fs.SetAttr(r.ctx, r.c, m.Handle, vfs.SetAttr{Size: ptr(uint64(0))}, nil)
	assert.ErrorIs(r, err, errInval)
}
