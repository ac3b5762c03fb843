package nfsserver

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

func TestRemoveRmdir(t *testing.T) {
	g, fs, fh := scene(t)
	var res nfs3.WccRes
	do := func(proc uint32, name string) nfs3.Status {
		a := in(fh[vfs.TypeDir], name)
		g.call(proc, &a, &res)
		assert.True(t, res.Wcc.After.OK, "%q", name)
		return res.Status
	}
	clock := fs.clock
	assert.Equal(t, nfs3.ErrNoEnt, do(nfs3.ProcRemove, "none"))
	assert.Equal(t, nfs3.ErrIsDir, do(nfs3.ProcRemove, "d"))
	assert.Equal(t, nfs3.ErrAcces, do(nfs3.ProcRemove, "."))
	assert.Equal(t, nfs3.ErrAcces, do(nfs3.ProcRemove, ".."))
	assert.Equal(t, nfs3.ErrAcces, do(nfs3.ProcRemove, ""))
	assert.Equal(t, nfs3.ErrNoEnt, do(nfs3.ProcRmdir, "none"))
	assert.Equal(t, nfs3.ErrNotDir, do(nfs3.ProcRmdir, "f"))
	assert.Equal(t, nfs3.ErrInval, do(nfs3.ProcRmdir, "."))  // RFC 1813, Section 3.3.13
	assert.Equal(t, nfs3.ErrExist, do(nfs3.ProcRmdir, "..")) // the same
	fs.nodes[sceneDir].names = []memName{{"x", sceneFile, 1}}
	assert.Equal(t, nfs3.ErrNotEmpty, do(nfs3.ProcRmdir, "d"))
	assert.Equal(t, clock, fs.clock)
	fs.nodes[sceneDir].names = nil
	assert.Equal(t, nfs3.OK, do(nfs3.ProcRemove, "f"))
	assert.True(t, res.Wcc.Before.OK)
	assert.Equal(t, nfs3.OK, do(nfs3.ProcRmdir, "d"))
	assert.Len(t, fs.nodes[memRoot].names, 1)
}

// twoExports is a scene with a second export.
func twoExports(t *testing.T) (*rig, map[vfs.Type]nfs3.FH, nfs3.FH) {
	g, _, fh := scene(t, func(c *Config) { c.Exports = append(c.Exports, Export{Path: "/y", FS: newMemFS()}) })
	return g, fh, g.fh(memRoot, 1)
}

// TestExportsApart checks that a call does not use the export of the last one.
func TestExportsApart(t *testing.T) {
	g, fh, other := twoExports(t)
	for range 3 {
		for _, root := range []nfs3.FH{fh[vfs.TypeDir], other} {
			var res nfs3.GetAttrRes
			g.call(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: root}, &res)
			assert.Equal(t, nfs3.OK, res.Status)
		}
	}
}

func TestRename(t *testing.T) {
	g, fh, other := twoExports(t)
	var res nfs3.RenameRes
	do := func(from, to nfs3.DirOpArgs) nfs3.Status {
		g.call(nfs3.ProcRename, &nfs3.RenameArgs{From: from, To: to}, &res)
		return res.Status
	}
	dir := fh[vfs.TypeDir]
	assert.Equal(t, nfs3.ErrNoEnt, do(in(dir, "none"), in(dir, "x")))
	assert.True(t, res.FromDir.After.OK && res.ToDir.After.OK)
	for _, dots := range []string{".", ".."} { // RFC 1813, Section 3.3.14
		assert.Equal(t, nfs3.ErrInval, do(in(dir, dots), in(dir, "x")))
		assert.True(t, res.FromDir.After.OK)
		assert.Equal(t, nfs3.ErrInval, do(in(dir, "f"), in(dir, dots)))
		assert.True(t, res.FromDir.After.OK && res.ToDir.After.OK)
	}
	assert.Equal(t, nfs3.ErrXDev, do(in(dir, "f"), in(other, "f")))
	assert.True(t, res.FromDir.After.OK)
	assert.Equal(t, nfs3.ErrBadHandle, do(in(dir, "f"), in(nil, "f")))
	assert.True(t, res.FromDir.After.OK)
	assert.Equal(t, nfs3.ErrStale, do(in(dir, "f"), in(g.fh(9999), "f")))
	assert.Equal(t, nfs3.ErrNotDir, do(in(dir, "f"), in(fh[vfs.TypeReg], "f")))
	assert.Equal(t, nfs3.OK, do(in(dir, "f"), in(dir, "l")), "over another")
	assert.True(t, res.FromDir.Before.OK && res.ToDir.Before.OK)
	var found nfs3.LookupRes
	a := in(dir, "l")
	g.call(nfs3.ProcLookup, &a, &found)
	assert.Equal(t, fh[vfs.TypeReg], found.Object, "the handle outlives its name")
}

func TestLink(t *testing.T) {
	g, fh, other := twoExports(t)
	var res nfs3.LinkRes
	do := func(file nfs3.FH, to nfs3.DirOpArgs) nfs3.Status {
		g.call(nfs3.ProcLink, &nfs3.LinkArgs{File: file, Link: to}, &res)
		return res.Status
	}
	dir, file := fh[vfs.TypeDir], fh[vfs.TypeReg]
	assert.Equal(t, nfs3.OK, do(file, in(dir, "g")))
	assert.EqualValues(t, 2, res.Attr.Attr.Nlink)
	assert.True(t, res.Dir.Before.OK && res.Dir.After.OK)
	assert.Equal(t, nfs3.ErrExist, do(file, in(dir, "g")))
	assert.True(t, res.Attr.OK && res.Dir.After.OK)
	assert.Equal(t, nfs3.ErrInval, do(file, in(dir, "."))) // RFC 1813, Section 3.3.15
	assert.True(t, res.Attr.OK && res.Dir.After.OK)
	assert.Equal(t, nfs3.ErrIsDir, do(dir, in(dir, "h")))
	assert.Equal(t, nfs3.ErrXDev, do(file, in(other, "g")))
	assert.True(t, res.Attr.OK)
	assert.Equal(t, nfs3.ErrBadHandle, do(file, in(nil, "g")))
	assert.Equal(t, nfs3.ErrNotDir, do(file, in(file, "g")))
}
