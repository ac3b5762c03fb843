package vfstest

import (
	"fmt"
	"sync"
	"syscall"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

const openBoth = vfs.OpenRead | vfs.OpenWrite

// openerFS returns the file system as one that opens files.
func (r *testFS) openerFS() vfs.Opener { return r.fs.(vfs.Opener) }

// openFile opens a file, and closes it after the test unless the test does.
func (r *testFS) openFile(h vfs.Handle, access vfs.OpenAccess) *vfs.Opened {
	r.Helper()
	o, err := r.openerFS().OpenFile(r.ctx, r.c, h, access)
	require.NoError(r, err)
	assert.Equal(r, access&vfs.OpenRead != 0, o.Read != nil)
	assert.Equal(r, access&vfs.OpenWrite != 0, o.Write != nil)
	r.Cleanup(func() { r.closeFile(&o) })
	return &o
}

func (r *testFS) closeFile(o *vfs.Opened) {
	o.Close()
	*o = vfs.Opened{}
}

// createOpen creates and opens a file.
func (r *testFS) createOpen(dir vfs.Handle, name string, how vfs.CreateHow, access vfs.OpenAccess) (vfs.Made, *vfs.Opened) {
	r.Helper()
	m, o, err := r.openerFS().CreateFile(r.ctx, r.c, dir, name, how, access)
	require.NoError(r, err)
	r.Cleanup(func() { r.closeFile(&o) })
	return m, &o
}

// readAll returns all of a short file.
func (r *testFS) readAll(f vfs.File) string {
	r.Helper()
	p := make([]byte, 1024)
	n, eof, err := f.Read(r.ctx, p, 0)
	require.NoError(r, err)
	require.True(r, eof)
	return string(p[:n])
}

func (r *testFS) writeOpen(f vfs.File, data string, off uint64) {
	r.Helper()
	n, _, err := f.Write(r.ctx, []byte(data), off, vfs.Unstable)
	require.NoError(r, err)
	require.Equal(r, len(data), n)
}

// cannotOpen asserts that opening fails.
func (r *testFS) cannotOpen(h vfs.Handle, access vfs.OpenAccess, want error, what string) {
	r.Helper()
	o, err := r.openerFS().OpenFile(r.ctx, r.c, h, access)
	assert.ErrorIs(r, err, want, what)
	assert.Equal(r, vfs.Opened{}, o, what)
}

func testOpen(r *testFS) {
	f := r.createFile(r.root, "f", "0123456789")
	o := r.openFile(f, openBoth)
	p := make([]byte, 4)
	for _, tt := range []struct {
		off  uint64
		want string
		eof  bool
	}{{0, "0123", false}, {6, "6789", true}, {8, "89", true}, {10, "", true}, {1<<64 - 1, "", true}} {
		n, eof, err := o.Read.Read(r.ctx, p, tt.off)
		require.NoError(r, err)
		assert.Equal(r, tt.want, string(p[:n]))
		assert.Equal(r, tt.eof, eof, tt.off)
	}
	before := r.getAttr(f)
	r.writeOpen(o.Write, "ab", 9)
	after := r.getAttr(f)
	assert.EqualValues(r, 11, after.Size)
	assert.NotEqual(r, before.Change, after.Change)
	assert.Equal(r, "012345678ab", r.readFile(f))
	r.writeFile(f, "x", 0)
	assert.Equal(r, "x12345678ab", r.readAll(o.Read))
	for _, size := range []uint64{2, 5, 3} {
		before = r.getAttr(f)
		require.NoError(r, o.Write.SetSize(r.ctx, size))
		assert.Equal(r, size, r.getAttr(f).Size)
		assert.NotEqual(r, before.Change, r.getAttr(f).Change)
	}
	assert.Equal(r, "x1\x00", r.readAll(o.Read))
	assert.ErrorIs(r, o.Write.SetSize(r.ctx, 1<<63), errTooBig)
	_, _, err := o.Write.Write(r.ctx, []byte("data"), 1<<63-2, vfs.Unstable)
	assert.ErrorIs(r, err, errTooBig)
	n, _, err := o.Write.Write(r.ctx, nil, 100, vfs.FileSync)
	require.NoError(r, err)
	assert.Zero(r, n)
	v := r.fs.WriteVerifier()
	for _, how := range []vfs.Stable{vfs.Unstable, vfs.DataSync, vfs.FileSync} {
		_, done, err := o.Write.Write(r.ctx, []byte("data"), 0, how)
		require.NoError(r, err)
		assert.GreaterOrEqual(r, done, how)
	}
	require.NoError(r, o.Write.Commit(r.ctx, 0, 0))
	assert.Equal(r, v, r.fs.WriteVerifier())

	_, _, err = o.Write.Read(r.ctx, p, 0)
	assert.ErrorIs(r, err, syscall.EBADF)
	_, _, err = o.Read.Write(r.ctx, p, 0, vfs.Unstable)
	assert.ErrorIs(r, err, syscall.EBADF)
	assert.ErrorIs(r, o.Read.SetSize(r.ctx, 0), syscall.EBADF)
	assert.ErrorIs(r, o.Read.Commit(r.ctx, 0, 0), syscall.EBADF)
	assert.Equal(r, "data", r.readFile(f))

	// One File is closed, and another for the same file stays usable.
	other := r.openFile(f, openBoth)
	r.closeFile(o)
	r.writeOpen(other.Write, "D", 0)
	assert.Equal(r, "Data", r.readAll(other.Read))
}

// testOpenRemoved checks that an open file without a name stays as it is, for
// its handle too, until its last File is closed.
func testOpenRemoved(r *testFS) {
	over := func(name string) { r.renameName(r.root, name+".new", r.root, name) }
	remove := func(name string) { r.removeFile(r.root, name) }
	for what, gone := range map[string]func(string){"rename": over, "remove": remove} {
		r.createFile(r.root, what+".new", "other")
		f := r.createFile(r.root, what, "data")
		one, two := r.openFile(f, openBoth), r.openFile(f, vfs.OpenRead)
		gone(what)
		assert.Equal(r, "data", r.readAll(one.Read), what)
		r.writeOpen(one.Write, "more", 4)
		require.NoError(r, one.Write.Commit(r.ctx, 0, 0))
		_, done, err := one.Write.Write(r.ctx, []byte("!"), 8, vfs.FileSync)
		require.NoError(r, err)
		assert.Equal(r, vfs.FileSync, done)
		assert.Equal(r, "datamore!", r.readAll(two.Read), what)
		require.NoError(r, one.Write.SetSize(r.ctx, 6))
		a := r.getAttr(f)
		assert.EqualValues(r, 6, a.Size, what)
		assert.Zero(r, a.Nlink, what)
		assert.Equal(r, "datamo", r.readFile(f), "by its handle")
		three := r.openFile(f, vfs.OpenRead)
		r.closeFile(one)
		r.closeFile(three)
		assert.Equal(r, "datamo", r.readAll(two.Read), "another has it open")
		r.closeFile(two)
		r.assertStale(f)
		r.cannotOpen(f, vfs.OpenRead, errStale, what)
	}
	f := r.createFile(r.root, "linked", "data")
	r.linkName(f, r.root, "other")
	o := r.openFile(f, openBoth)
	r.removeFile(r.root, "linked")
	r.closeFile(o)
	assert.Equal(r, "data", r.readFile(f), "it has a name")
}

// testOpenRights checks that the rights to a File are those of the time when it
// was opened, and that other callers' are not.
func testOpenRights(r *testFS) {
	root := r.asCaller(su)
	a, b, c := r.asCaller(alice), r.asCaller(bob), r.asCaller(carol)
	f := root.createFile(r.root, "f", "data")
	root.setAttr(f, vfs.SetAttr{Mode: ptrTo(uint32(0o640)), UID: &alice.UID, GID: &alice.Groups[0]})
	b.cannotOpen(f, openBoth, errAccess, "the group cannot write")
	b.cannotOpen(f, vfs.OpenWrite, errAccess, "the group cannot write")
	c.cannotOpen(f, vfs.OpenRead, errAccess, "others cannot read")
	mine, theirs := a.openFile(f, openBoth), b.openFile(f, vfs.OpenRead)
	root.setAttr(f, vfs.SetAttr{Mode: ptrTo(uint32(0)), UID: &carol.UID})
	r.writeOpen(mine.Write, "DATA", 0)
	require.NoError(r, mine.Write.SetSize(r.ctx, 3))
	require.NoError(r, mine.Write.Commit(r.ctx, 0, 0))
	assert.Equal(r, "DAT", r.readAll(mine.Read))
	assert.Equal(r, "DAT", r.readAll(theirs.Read))
	for _, who := range []*testFS{a, b} {
		_, _, _, err := r.fs.Read(r.ctx, who.c, f, make([]byte, 1), 0)
		assert.ErrorIs(r, err, errAccess, "calls by the handle are checked")
		_, _, _, err = r.fs.Write(r.ctx, who.c, f, []byte("x"), 0, vfs.Unstable)
		assert.ErrorIs(r, err, errAccess, "calls by the handle are checked")
		who.cannotOpen(f, vfs.OpenRead, errAccess, "the rights are gone")
	}

	_, o, err := b.openerFS().CreateFile(r.ctx, b.c, r.root, "f", vfs.CreateHow{}, vfs.OpenRead)
	assert.ErrorIs(r, err, errAccess, "of an existing file")
	assert.Equal(r, vfs.Opened{}, o)

	// The creator's rights end when the file is closed.
	d := r.createDir(r.root, "d")
	r.setAttr(d, modeAttr(0o777))
	made, own := a.createOpen(d, "made", guardedCreate(0o444), openBoth)
	r.writeOpen(own.Write, "text", 0)
	root.setAttr(made.Handle, vfs.SetAttr{UID: &carol.UID})
	r.writeOpen(own.Write, "T", 0)
	assert.Equal(r, "Text", r.readAll(own.Read))
	_, _, _, err = r.fs.Write(r.ctx, a.c, made.Handle, []byte("x"), 0, vfs.Unstable)
	assert.ErrorIs(r, err, errAccess)
	a.cannotOpen(made.Handle, vfs.OpenWrite, errAccess, "the maker, later")

	// A writer that is not the owner clears the set-user-ID bit.
	s := root.createFile(r.root, "s", "data")
	root.setAttr(s, vfs.SetAttr{Mode: ptrTo(uint32(0o4777)), UID: &alice.UID})
	w := b.openFile(s, vfs.OpenWrite)
	r.writeOpen(w.Write, "x", 0)
	assert.EqualValues(r, 0o777, r.getAttr(s).Mode)
	root.setAttr(s, vfs.SetAttr{Mode: ptrTo(uint32(0o4777))})
	require.NoError(r, w.Write.SetSize(r.ctx, 1))
	assert.EqualValues(r, 0o777, r.getAttr(s).Mode)
}

// testOpenCreate checks that the maker of a file has it open in any mode, and that existing files
// are opened, truncated or rejected as how says.
func testOpenCreate(r *testFS) {
	for _, m := range []uint32{0o444, 0o200, 0} {
		name := fmt.Sprintf("f%o", m)
		made, o := r.createOpen(r.root, name, guardedCreate(m), openBoth)
		require.NotNil(r, o.Read)
		require.NotNil(r, o.Write)
		assert.Equal(r, m, made.Attr.Mode)
		r.writeOpen(o.Write, "data", 0)
		assert.Equal(r, "data", r.readAll(o.Read))
		assert.Equal(r, made.Handle, r.lookupName(r.root, name))
	}
	for access, how := range map[vfs.OpenAccess]vfs.CreateHow{
		vfs.OpenRead: guardedCreate(0o600), vfs.OpenWrite: {Mode: vfs.Exclusive, Verifier: 7},
	} {
		_, o := r.createOpen(r.root, fmt.Sprint("only", access), how, access)
		assert.Equal(r, access == vfs.OpenRead, o.Read != nil)
		assert.Equal(r, access == vfs.OpenWrite, o.Write != nil)
	}
	_, _, err := r.openerFS().CreateFile(r.ctx, r.c, r.root, "f444", guardedCreate(0o600), openBoth)
	assert.ErrorIs(r, err, errExist)

	first, one := r.createOpen(r.root, "x", vfs.CreateHow{Mode: vfs.Exclusive, Verifier: 1 << 40}, openBoth)
	again, two := r.createOpen(r.root, "x", vfs.CreateHow{Mode: vfs.Exclusive, Verifier: 1 << 40}, openBoth)
	assert.Equal(r, first.Handle, again.Handle)
	r.writeOpen(one.Write, "data", 0)
	assert.Equal(r, "data", r.readAll(two.Read))
	_, _, err = r.openerFS().CreateFile(r.ctx, r.c, r.root, "x", vfs.CreateHow{Mode: vfs.Exclusive, Verifier: 2 << 40}, openBoth)
	assert.ErrorIs(r, err, errExist)

	f := r.createFile(r.root, "old", "0123456789")
	made, o := r.createOpen(r.root, "old", vfs.CreateHow{Attr: vfs.SetAttr{Size: ptrTo(uint64(3))}}, openBoth)
	assert.Equal(r, f, made.Handle)
	assert.Equal(r, "012", r.readAll(o.Read))
	made, o = r.createOpen(r.root, "new", vfs.CreateHow{Attr: vfs.SetAttr{Size: ptrTo(uint64(3))}}, openBoth)
	assert.Equal(r, "\x00\x00\x00", r.readAll(o.Read))
	r.removeFile(r.root, "new")
	r.writeOpen(o.Write, "abc", 0)
	assert.Equal(r, "abc", r.readAll(o.Read))
	r.closeFile(o)
	r.assertStale(made.Handle)
}

// testOpenTypes checks that only regular files can be opened.
func testOpenTypes(r *testFS) {
	d := r.createDir(r.root, "d")
	l, err := r.fs.Symlink(r.ctx, r.c, r.root, "l", "f", vfs.SetAttr{})
	require.NoError(r, err)
	p, err := r.fs.Mknod(r.ctx, r.c, r.root, "p", vfs.TypeFIFO, vfs.Dev{}, modeAttr(0o666))
	require.NoError(r, err)
	for _, h := range []vfs.Handle{d, l.Handle, p.Handle} {
		for _, access := range []vfs.OpenAccess{vfs.OpenRead, vfs.OpenWrite, openBoth} {
			r.cannotOpen(h, access, errInval, "not a regular file")
		}
	}
	for _, name := range []string{"l", "p"} {
		_, o, err := r.openerFS().CreateFile(r.ctx, r.c, r.root, name, vfs.CreateHow{}, openBoth)
		assert.ErrorIs(r, err, errInval, name)
		assert.Equal(r, vfs.Opened{}, o)
	}
	_, _, err = r.openerFS().CreateFile(r.ctx, r.c, r.root, "d", vfs.CreateHow{}, openBoth)
	assert.ErrorIs(r, err, errIsDir)
	_, _, err = r.openerFS().CreateFile(r.ctx, r.c, r.root, "a/b", guardedCreate(0o600), openBoth)
	assert.Error(r, err)
	f := r.createFile(r.root, "gone", "")
	r.removeFile(r.root, "gone")
	r.cannotOpen(f, vfs.OpenRead, errStale, "removed")
}

// testOpenConcurrent opens, uses, removes and closes files at once.
func testOpenConcurrent(r *testFS) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 20 {
				name := fmt.Sprintf("f%d", (i+n)%5)
				m, o, err := r.openerFS().CreateFile(r.ctx, r.c, r.root, name, vfs.CreateHow{}, openBoth)
				if err != nil {
					assert.Contains(r, []error{errNoEnt, errStale, errExist}, err)
					continue
				}
				two, err := r.openerFS().OpenFile(r.ctx, r.c, m.Handle, vfs.OpenRead)
				if err != nil {
					assert.ErrorIs(r, err, errStale)
				}
				_, _, err = o.Write.Write(r.ctx, []byte("data"), 0, vfs.Unstable)
				assert.NoError(r, err)
				_, err = r.fs.Remove(r.ctx, r.c, r.root, name)
				if err != nil {
					assert.ErrorIs(r, err, errNoEnt)
				}
				p := make([]byte, 4)
				_, _, err = o.Read.Read(r.ctx, p, 0)
				assert.NoError(r, err)
				assert.Equal(r, "data", string(p))
				two.Close()
				o.Close()
			}
		})
	}
	wg.Wait()
	assert.Empty(r, r.listNames(r.root))
}
