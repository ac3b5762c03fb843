package vfstest

import (
	"fmt"
	"math/rand/v2"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// testHandlesMove checks that a handle refers to its object through all renames
// and links.
func testHandlesMove(r *testFS) {
	d, e := r.createDir(r.root, "d"), r.createDir(r.root, "e")
	f := r.createFile(d, "f", "data")
	r.renameName(d, "f", e, "g")
	assert.Equal(r, "data", r.readFile(f))
	r.renameName(r.root, "e", d, "e")
	assert.Equal(r, "data", r.readFile(f))
	assert.Equal(r, f, r.lookupName(e, "g"))
	r.renameName(e, "g", r.root, "h")
	r.removeDir(d, "e")
	r.removeDir(r.root, "d")
	assert.Equal(r, "data", r.readFile(f))
	r.linkName(f, r.root, "k")
	r.removeFile(r.root, "h")
	assert.Equal(r, "data", r.readFile(f))
	assert.Equal(r, f, r.lookupName(r.root, "k"))
}

// testHandlesStale checks that a handle never refers to another object, even if
// inode numbers are reused.
func testHandlesStale(r *testFS) {
	reused := 0
	type gone struct {
		h  vfs.Handle
		id uint64
	}
	var old []gone
	for i := range 60 {
		name := fmt.Sprint("f", i%3)
		f := r.createFile(r.root, name, "data")
		id := r.getAttr(f).FileID
		for _, g := range old {
			require.NotEqual(r, g.h, f)
			if g.id == id {
				reused++
			}
		}
		r.removeFile(r.root, name)
		old = append(old, gone{f, id})
	}
	r.createFile(r.root, "f0", "data")
	for _, g := range old {
		r.assertStale(g.h)
		_, _, _, err := r.fs.Read(r.ctx, r.c, g.h, make([]byte, 4), 0)
		assert.ErrorIs(r, err, errStale)
	}
	r.Logf("%d inode numbers were reused", reused)
	d := r.createDir(r.root, "d")
	r.removeDir(r.root, "d")
	r.createDir(r.root, "d")
	r.assertStale(d)
}

// testHandlesOne checks that an object has one handle, through every name and
// listing.
func testHandlesOne(r *testFS) {
	d, e := r.createDir(r.root, "d"), r.createDir(r.root, "e")
	f := r.createFile(d, "f", "")
	r.linkName(f, e, "g")
	for range 2 {
		assert.Equal(r, f, r.lookupName(d, "f"))
		assert.Equal(r, f, r.lookupName(e, "g"))
		for _, dir := range []vfs.Handle{d, e} {
			for _, ent := range r.listDir(dir, 10, true) {
				if ent.name == "f" || ent.name == "g" {
					assert.Equal(r, f, ent.Handle)
				}
			}
		}
		r.restartFS(false)
	}
	r.renameName(d, "f", r.root, "h")
	assert.Equal(r, f, r.lookupName(r.root, "h"))
	assert.Equal(r, f, r.lookupName(e, "g"))
}

// testHandlesForged checks that no forged handle works. Protection against
// guessing the numbers in a handle is not the file system's duty.
func testHandlesForged(r *testFS) {
	f := r.createFile(r.root, "f", "data")
	genuine := f.AppendTo(nil)
	rnd := rand.New(rand.NewPCG(3, 4))
	try := func(b []byte) {
		h, ok := vfs.NewHandle(b)
		if !ok {
			return
		}
		ops := map[string]error{}
		_, ops["getattr"] = r.fs.GetAttr(r.ctx, r.c, h)
		_, _, _, ops["read"] = r.fs.Read(r.ctx, r.c, h, make([]byte, 1), 0)
		_, _, _, ops["lookup"] = r.fs.Lookup(r.ctx, r.c, h, "f")
		_, ops["create"] = r.fs.Create(r.ctx, r.c, h, "f", guardedCreate(0o600))
		_, _, ops["link"] = r.fs.Link(r.ctx, r.c, h, r.root, "g")
		_, _, ops["rename"] = r.fs.Rename(r.ctx, r.c, r.root, "f", h, "g")
		for op, err := range ops {
			if err == nil {
				assert.Fail(r, "a forged handle worked", "%s of %x", op, b)
			}
		}
	}
	try(nil)
	for n := range genuine {
		try(genuine[:n])
	}
	for range 2000 {
		b := make([]byte, rnd.IntN(vfs.MaxHandle+1))
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		if len(b) > 0 && rnd.IntN(2) == 0 {
			b[0] = genuine[0]
		}
		try(b)
	}
	assert.Equal(r, "data", r.readFile(f))
	assert.Equal(r, []string{"f"}, r.listNames(r.root))
}

// testRestart checks that handles outlive the server, whether it was closed or
// killed.
func testRestart(r *testFS, killed bool) {
	d := r.createDir(r.root, "d")
	e := r.createDir(d, "e")
	f := r.createFile(e, "f", "data")
	r.createFiles(100)
	byName := make(map[string]vfs.Handle)
	for _, ent := range r.listDir(r.root, 1000, true) {
		byName[ent.name] = ent.Handle
	}
	moved := r.createFile(d, "moves", "moved")
	r.renameName(d, "moves", e, "moved")
	gone := r.createFile(d, "gone", "")
	r.removeFile(d, "gone")
	linked := r.createFile(d, "linked", "linked")
	r.linkName(linked, r.root, "other")
	r.removeFile(d, "linked")
	root := r.root

	for range 2 {
		r.useFS(r.b.Restart(r.T, r.fs, killed))
		assert.Equal(r, root, r.root)
		assert.Equal(r, "data", r.readFile(f))
		assert.Equal(r, f, r.lookupName(e, "f"))
		assert.Equal(r, d, r.lookupName(e, ".."))
		assert.Equal(r, "moved", r.readFile(moved))
		assert.Equal(r, moved, r.lookupName(e, "moved"))
		assert.Equal(r, "linked", r.readFile(linked))
		assert.Equal(r, linked, r.lookupName(r.root, "other"))
		r.assertStale(gone)
		for name, h := range byName {
			r.getAttr(h)
			assert.Equal(r, h, r.lookupName(r.root, name), name)
		}
	}
	// The next server finds a directory that its predecessor moved.
	r.renameName(d, "e", r.root, "e2")
	r.useFS(r.b.Restart(r.T, r.fs, killed))
	assert.Equal(r, "data", r.readFile(f))
	_, err := r.fs.Create(r.ctx, r.c, e, "new", guardedCreate(0o600))
	require.NoError(r, err)
}
