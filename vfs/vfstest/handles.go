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
func testHandlesMove(r *rig) {
	d, e := r.dir(r.root, "d"), r.dir(r.root, "e")
	f := r.file(d, "f", "data")
	r.rename(d, "f", e, "g")
	assert.Equal(r, "data", r.read(f))
	r.rename(r.root, "e", d, "e")
	assert.Equal(r, "data", r.read(f))
	assert.Equal(r, f, r.lookup(e, "g"))
	r.rename(e, "g", r.root, "h")
	r.rmdir(d, "e")
	r.rmdir(r.root, "d")
	assert.Equal(r, "data", r.read(f))
	r.link(f, r.root, "k")
	r.remove(r.root, "h")
	assert.Equal(r, "data", r.read(f))
	assert.Equal(r, f, r.lookup(r.root, "k"))
}

// testHandlesStale checks that a handle never refers to another object, even if
// inode numbers are reused.
func testHandlesStale(r *rig) {
	reused := 0
	type gone struct {
		h  vfs.Handle
		id uint64
	}
	var old []gone
	for i := range 60 {
		name := fmt.Sprint("f", i%3)
		f := r.file(r.root, name, "data")
		id := r.attr(f).FileID
		for _, g := range old {
			require.NotEqual(r, g.h, f)
			if g.id == id {
				reused++
			}
		}
		r.remove(r.root, name)
		old = append(old, gone{f, id})
	}
	r.file(r.root, "f0", "data")
	for _, g := range old {
		r.stale(g.h)
		_, _, _, err := r.fs.Read(r.ctx, r.c, g.h, make([]byte, 4), 0)
		assert.ErrorIs(r, err, errStale)
	}
	r.Logf("%d inode numbers were reused", reused)
	d := r.dir(r.root, "d")
	r.rmdir(r.root, "d")
	r.dir(r.root, "d")
	r.stale(d)
}

// testHandlesOne checks that an object has one handle, through every name and
// listing.
func testHandlesOne(r *rig) {
	d, e := r.dir(r.root, "d"), r.dir(r.root, "e")
	f := r.file(d, "f", "")
	r.link(f, e, "g")
	for range 2 {
		assert.Equal(r, f, r.lookup(d, "f"))
		assert.Equal(r, f, r.lookup(e, "g"))
		for _, dir := range []vfs.Handle{d, e} {
			for _, ent := range r.list(dir, 10, true) {
				if ent.name == "f" || ent.name == "g" {
					assert.Equal(r, f, ent.Handle)
				}
			}
		}
		r.restart(false)
	}
	r.rename(d, "f", r.root, "h")
	assert.Equal(r, f, r.lookup(r.root, "h"))
	assert.Equal(r, f, r.lookup(e, "g"))
}

// testHandlesForged checks that no forged handle works. Protection against
// guessing the numbers in a handle is not the file system's duty.
func testHandlesForged(r *rig) {
	f := r.file(r.root, "f", "data")
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
		_, ops["create"] = r.fs.Create(r.ctx, r.c, h, "f", guarded(0o600))
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
	assert.Equal(r, "data", r.read(f))
	assert.Equal(r, []string{"f"}, r.names(r.root))
}

// testRestart checks that handles outlive the server, whether it was closed or
// killed.
func testRestart(r *rig, killed bool) {
	d := r.dir(r.root, "d")
	e := r.dir(d, "e")
	f := r.file(e, "f", "data")
	r.fill(100)
	byName := make(map[string]vfs.Handle)
	for _, ent := range r.list(r.root, 1000, true) {
		byName[ent.name] = ent.Handle
	}
	moved := r.file(d, "moves", "moved")
	r.rename(d, "moves", e, "moved")
	gone := r.file(d, "gone", "")
	r.remove(d, "gone")
	linked := r.file(d, "linked", "linked")
	r.link(linked, r.root, "other")
	r.remove(d, "linked")
	root := r.root

	for range 2 {
		r.use(r.b.Restart(r.T, r.fs, killed))
		assert.Equal(r, root, r.root)
		assert.Equal(r, "data", r.read(f))
		assert.Equal(r, f, r.lookup(e, "f"))
		assert.Equal(r, d, r.lookup(e, ".."))
		assert.Equal(r, "moved", r.read(moved))
		assert.Equal(r, moved, r.lookup(e, "moved"))
		assert.Equal(r, "linked", r.read(linked))
		assert.Equal(r, linked, r.lookup(r.root, "other"))
		r.stale(gone)
		for name, h := range byName {
			r.attr(h)
			assert.Equal(r, h, r.lookup(r.root, name), name)
		}
	}
	// The next server finds a directory that its predecessor moved.
	r.rename(d, "e", r.root, "e2")
	r.use(r.b.Restart(r.T, r.fs, killed))
	assert.Equal(r, "data", r.read(f))
	_, err := r.fs.Create(r.ctx, r.c, e, "new", guarded(0o600))
	require.NoError(r, err)
}
