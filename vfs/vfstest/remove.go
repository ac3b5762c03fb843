package vfstest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

func testRemove(r *testFS) {
	f := r.createFile(r.root, "f", "data")
	_, err := r.fs.Symlink(r.ctx, r.c, r.root, "l", "f", vfs.SetAttr{})
	require.NoError(r, err)
	r.removeFile(r.root, "l")
	assert.Equal(r, "data", r.readFile(f), "the link was removed, not the file")
	r.removeFile(r.root, "f")
	r.assertAbsent(r.root, "f")
	r.assertStale(f)
	_, err = r.fs.Remove(r.ctx, r.c, r.root, "f")
	assert.ErrorIs(r, err, errNoEnt)
	r.createDir(r.root, "d")
	_, err = r.fs.Remove(r.ctx, r.c, r.root, "d")
	assert.Error(r, err, "REMOVE refuses a directory")
	assert.Equal(r, []string{"d"}, r.listNames(r.root))
}

func testRmdir(r *testFS) {
	d := r.createDir(r.root, "d")
	r.createFile(d, "f", "")
	_, err := r.fs.Rmdir(r.ctx, r.c, r.root, "d")
	assert.ErrorIs(r, err, errNotEmpty)
	_, err = r.fs.Rmdir(r.ctx, r.c, d, "f")
	assert.ErrorIs(r, err, errNotDir)
	r.removeFile(d, "f")
	r.removeDir(r.root, "d")
	r.assertStale(d)
	_, err = r.fs.Create(r.ctx, r.c, d, "late", guardedCreate(0o644))
	assert.ErrorIs(r, err, errStale)
	_, err = r.fs.Rmdir(r.ctx, r.c, r.root, "d")
	assert.ErrorIs(r, err, errNoEnt)
}

func testRename(r *testFS) {
	d, e := r.createDir(r.root, "d"), r.createDir(r.root, "e")
	f := r.createFile(d, "f", "data")
	r.renameName(d, "f", d, "g")
	r.assertAbsent(d, "f")
	assert.Equal(r, f, r.lookupName(d, "g"))
	r.renameName(d, "g", e, "h")
	r.assertAbsent(d, "g")
	assert.Equal(r, f, r.lookupName(e, "h"))
	assert.Equal(r, "data", r.readFile(f))
	r.renameName(e, "h", e, "h")
	assert.Equal(r, f, r.lookupName(e, "h"))

	r.renameName(r.root, "d", e, "d")
	assert.Equal(r, d, r.lookupName(e, "d"))
	assert.Equal(r, e, r.lookupName(d, ".."))
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

func testRenameOver(r *testFS) {
	a, b := r.createFile(r.root, "a", "a"), r.createFile(r.root, "b", "b")
	assert.Equal(r, "b", r.readFile(b)) // opens the file
	r.renameName(r.root, "a", r.root, "b")
	assert.Equal(r, a, r.lookupName(r.root, "b"))
	assert.Equal(r, []string{"b"}, r.listNames(r.root))
	r.assertStale(b)

	r.linkName(a, r.root, "c")
	for _, to := range []string{"b", "c"} {
		before := r.getAttr(r.root)
		from, into, err := r.fs.Rename(r.ctx, r.c, r.root, "b", r.root, to)
		require.NoError(r, err)
		assert.ElementsMatch(r, []string{"b", "c"}, r.listNames(r.root), "two names of one file: no effect")
		for _, after := range []vfs.Attr{from.After.Attr, into.After.Attr, r.getAttr(r.root)} {
			assert.Equal(r, before.Change, after.Change)
			assert.Equal(r, before.Ctime, after.Ctime)
		}
	}
	assert.Equal(r, "a", r.readFile(a))

	full, empty := r.createDir(r.root, "full"), r.createDir(r.root, "empty")
	r.createFile(full, "f", "")
	_, _, err := r.fs.Rename(r.ctx, r.c, r.root, "empty", r.root, "full")
	assert.ErrorIs(r, err, errNotEmpty)
	_, _, err = r.fs.Rename(r.ctx, r.c, r.root, "c", r.root, "empty")
	assert.ErrorIs(r, err, errIsDir)
	_, _, err = r.fs.Rename(r.ctx, r.c, r.root, "empty", r.root, "c")
	assert.ErrorIs(r, err, errNotDir)
	r.renameName(r.root, "full", r.root, "empty")
	assert.Equal(r, full, r.lookupName(r.root, "empty"))
	r.assertStale(empty)
}

func testLink(r *testFS) {
	d := r.createDir(r.root, "d")
	f := r.createFile(r.root, "f", "data")
	obj, _, err := r.fs.Link(r.ctx, r.c, f, d, "g")
	require.NoError(r, err)
	assert.EqualValues(r, 2, obj.Nlink)
	assert.Equal(r, f, r.lookupName(d, "g"), "one object, one handle")
	_, _, err = r.fs.Link(r.ctx, r.c, f, d, "g")
	assert.ErrorIs(r, err, errExist)
	_, _, err = r.fs.Link(r.ctx, r.c, d, r.root, "dirlink")
	assert.Error(r, err, "directories have a single name")
	_, _, err = r.fs.Link(r.ctx, r.c, f, f, "x")
	assert.ErrorIs(r, err, errNotDir)

	r.removeFile(r.root, "f")
	assert.EqualValues(r, 1, r.getAttr(f).Nlink)
	assert.Equal(r, "data", r.readFile(f))
	r.removeFile(d, "g")
	r.assertStale(f)

	m, err := r.fs.Symlink(r.ctx, r.c, r.root, "l", "nowhere", vfs.SetAttr{})
	require.NoError(r, err)
	r.linkName(m.Handle, d, "l2")
	assert.Equal(r, m.Handle, r.lookupName(d, "l2"), "the link itself, not its target")
}

func testWrongTypes(r *testFS) {
	f := r.createFile(r.root, "f", "")
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
	_, err = r.fs.SetAttr(r.ctx, r.c, r.root, vfs.SetAttr{Size: ptrTo(uint64(0))}, nil)
	assert.ErrorIs(r, err, errIsDir)
	_, err = r.fs.SetAttr(r.ctx, r.c, m.Handle, vfs.SetAttr{Size: ptrTo(uint64(0))}, nil)
	assert.ErrorIs(r, err, errInval)
}
