package nfsserver

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

func TestRemoveRmdir(t *testing.T) {
	g, fs, fh := newScene(t)
	var res nfs3.WccRes
	do := func(proc uint32, name string) nfs3.Status {
		a := dirOpArgs(fh[vfs.TypeDir], name)
		g.callNFS(proc, &a, &res)
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

// newTwoExports is a scene with a second export.
func newTwoExports(t *testing.T) (*testServer, map[vfs.Type]nfs3.FH, nfs3.FH) {
	g, _, fh := newScene(t, func(c *Config) { c.Exports = append(c.Exports, Export{Path: "/y", FS: newMemFS()}) })
	return g, fh, g.handleOf(memRoot, 1)
}

// TestExportsApart checks that a call does not use the previous call's export.
func TestExportsApart(t *testing.T) {
	g, fh, other := newTwoExports(t)
	for range 3 {
		for _, root := range []nfs3.FH{fh[vfs.TypeDir], other} {
			var res nfs3.GetAttrRes
			g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: root}, &res)
			assert.Equal(t, nfs3.OK, res.Status)
		}
	}
}

func TestRename(t *testing.T) {
	g, fh, other := newTwoExports(t)
	var res nfs3.RenameRes
	do := func(from, to nfs3.DirOpArgs) nfs3.Status {
		g.callNFS(nfs3.ProcRename, &nfs3.RenameArgs{From: from, To: to}, &res)
		return res.Status
	}
	dir := fh[vfs.TypeDir]
	assert.Equal(t, nfs3.ErrNoEnt, do(dirOpArgs(dir, "none"), dirOpArgs(dir, "x")))
	assert.True(t, res.FromDir.After.OK && res.ToDir.After.OK)
	for _, dots := range []string{".", ".."} { // RFC 1813, Section 3.3.14
		assert.Equal(t, nfs3.ErrInval, do(dirOpArgs(dir, dots), dirOpArgs(dir, "x")))
		assert.True(t, res.FromDir.After.OK)
		assert.Equal(t, nfs3.ErrInval, do(dirOpArgs(dir, "f"), dirOpArgs(dir, dots)))
		assert.True(t, res.FromDir.After.OK && res.ToDir.After.OK)
	}
	assert.Equal(t, nfs3.ErrXDev, do(dirOpArgs(dir, "f"), dirOpArgs(other, "f")))
	assert.True(t, res.FromDir.After.OK)
	assert.Equal(t, nfs3.ErrBadHandle, do(dirOpArgs(dir, "f"), dirOpArgs(nil, "f")))
	assert.True(t, res.FromDir.After.OK)
	assert.Equal(t, nfs3.ErrStale, do(dirOpArgs(dir, "f"), dirOpArgs(g.handleOf(9999), "f")))
	assert.Equal(t, nfs3.ErrNotDir, do(dirOpArgs(dir, "f"), dirOpArgs(fh[vfs.TypeReg], "f")))
	assert.Equal(t, nfs3.OK, do(dirOpArgs(dir, "f"), dirOpArgs(dir, "l")), "over another")
	assert.True(t, res.FromDir.Before.OK && res.ToDir.Before.OK)
	var found nfs3.LookupRes
	a := dirOpArgs(dir, "l")
	g.callNFS(nfs3.ProcLookup, &a, &found)
	assert.Equal(t, fh[vfs.TypeReg], found.Object, "the handle outlives its name")
}

func TestLink(t *testing.T) {
	g, fh, other := newTwoExports(t)
	var res nfs3.LinkRes
	do := func(file nfs3.FH, to nfs3.DirOpArgs) nfs3.Status {
		g.callNFS(nfs3.ProcLink, &nfs3.LinkArgs{File: file, Link: to}, &res)
		return res.Status
	}
	dir, file := fh[vfs.TypeDir], fh[vfs.TypeReg]
	assert.Equal(t, nfs3.OK, do(file, dirOpArgs(dir, "g")))
	assert.EqualValues(t, 2, res.Attr.Attr.Nlink)
	assert.True(t, res.Dir.Before.OK && res.Dir.After.OK)
	assert.Equal(t, nfs3.ErrExist, do(file, dirOpArgs(dir, "g")))
	assert.True(t, res.Attr.OK && res.Dir.After.OK)
	assert.Equal(t, nfs3.ErrInval, do(file, dirOpArgs(dir, "."))) // RFC 1813, Section 3.3.15
	assert.True(t, res.Attr.OK && res.Dir.After.OK)
	assert.Equal(t, nfs3.ErrIsDir, do(dir, dirOpArgs(dir, "h")))
	assert.Equal(t, nfs3.ErrXDev, do(file, dirOpArgs(other, "g")))
	assert.True(t, res.Attr.OK)
	assert.Equal(t, nfs3.ErrBadHandle, do(file, dirOpArgs(nil, "g")))
	assert.Equal(t, nfs3.ErrNotDir, do(file, dirOpArgs(file, "g")))
}
