package nfsserver

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

func TestCreate(t *testing.T) {
	g, _, fh := newScene(t)
	var res nfs3.MakeRes
	create := func(a nfs3.CreateArgs) nfs3.MakeRes {
		g.callNFS(nfs3.ProcCreate, &a, &res)
		assert.True(t, res.Dir.Before.OK && res.Dir.After.OK)
		return res
	}
	dir := fh[vfs.TypeDir]
	set := nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: 0o600}}
	made := create(nfs3.CreateArgs{Where: dirOpArgs(dir, "a"), Mode: nfs3.Guarded, Attr: set})
	assert.Equal(t, nfs3.OK, made.Status)
	assert.EqualValues(t, 0o600, made.Attr.Attr.Mode)
	assert.Equal(t, nfs3.TypeReg, made.Attr.Attr.Type)
	first := append(nfs3.FH{}, made.Object...)

	assert.Equal(t, nfs3.ErrExist, create(nfs3.CreateArgs{Where: dirOpArgs(dir, "a"), Mode: nfs3.Guarded}).Status)
	again := create(nfs3.CreateArgs{Where: dirOpArgs(dir, "a"), Mode: nfs3.Unchecked})
	assert.Equal(t, nfs3.OK, again.Status)
	assert.Equal(t, first, again.Object)

	// A repeated exclusive create finds its own file.
	made = create(nfs3.CreateArgs{Where: dirOpArgs(dir, "e"), Mode: nfs3.Exclusive, Verf: 1 << 60})
	assert.Equal(t, nfs3.OK, made.Status)
	first = append(nfs3.FH{}, made.Object...)
	again = create(nfs3.CreateArgs{Where: dirOpArgs(dir, "e"), Mode: nfs3.Exclusive, Verf: 1 << 60})
	assert.Equal(t, nfs3.OK, again.Status)
	assert.Equal(t, first, again.Object)
	assert.Equal(t, nfs3.ErrExist, create(nfs3.CreateArgs{Where: dirOpArgs(dir, "e"), Mode: nfs3.Exclusive, Verf: 2}).Status)
}

func TestMkdir(t *testing.T) {
	g, _, fh := newScene(t)
	var res nfs3.MakeRes
	g.callNFS(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: dirOpArgs(fh[vfs.TypeDir], "new")}, &res)
	assert.Equal(t, nfs3.OK, res.Status)
	assert.Equal(t, nfs3.TypeDir, res.Attr.Attr.Type)
	g.callNFS(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: dirOpArgs(fh[vfs.TypeDir], "new")}, &res)
	assert.Equal(t, nfs3.ErrExist, res.Status)
	g.callNFS(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: dirOpArgs(fh[vfs.TypeReg], "new")}, &res)
	assert.Equal(t, nfs3.ErrNotDir, res.Status)
}

func TestSymlink(t *testing.T) {
	g, fs, fh := newScene(t)
	for _, g.apart = range []bool{false, true} {
		var res nfs3.MakeRes
		name := map[bool]string{false: "in", true: "apart"}[g.apart]
		g.callNFS(nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: dirOpArgs(fh[vfs.TypeDir], name), Path: []byte("../\xff/x")}, &res)
		assert.Equal(t, nfs3.OK, res.Status)
		assert.Equal(t, nfs3.TypeLnk, res.Attr.Attr.Type)
		assert.Equal(t, "../\xff/x", fs.nodes[res.Attr.Attr.FileID].target)
	}
	var res nfs3.MakeRes
	g.callNFS(nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: dirOpArgs(fh[vfs.TypeDir], "long"), Path: make([]byte, 4097)}, &res)
	assert.Equal(t, nfs3.ErrNameTooLong, res.Status)
}

func TestMknod(t *testing.T) {
	g, fs, fh := newScene(t)
	var res nfs3.MakeRes
	for _, kind := range []nfs3.Type{nfs3.TypeBlk, nfs3.TypeChr, nfs3.TypeSock, nfs3.TypeFIFO} {
		name := string(rune('A' + kind))
		args := nfs3.MknodArgs{Where: dirOpArgs(fh[vfs.TypeDir], name), Type: kind, Spec: nfs3.SpecData{Major: 5, Minor: 6}}
		g.callNFS(nfs3.ProcMknod, &args, &res)
		assert.Equal(t, nfs3.OK, res.Status)
		assert.Equal(t, kind, res.Attr.Attr.Type)
		if kind == nfs3.TypeBlk || kind == nfs3.TypeChr {
			assert.Equal(t, args.Spec, res.Attr.Attr.Rdev)
		}
	}
	clock := fs.clock
	for _, kind := range []nfs3.Type{0, nfs3.TypeReg, nfs3.TypeDir, nfs3.TypeLnk, 8, 1 << 31} {
		g.callNFS(nfs3.ProcMknod, &nfs3.MknodArgs{Where: dirOpArgs(fh[vfs.TypeDir], "n"), Type: kind}, &res)
		assert.Equal(t, nfs3.ErrBadType, res.Status) // RFC 1813, Section 3.3.11
		assert.True(t, res.Dir.After.OK)
	}
	assert.Equal(t, clock, fs.clock)
}

// TestMakeNames checks names against RFC 1813, Section 3.2.
func TestMakeNames(t *testing.T) {
	makers := []struct {
		proc uint32
		args func(w nfs3.DirOpArgs) message
	}{
		{nfs3.ProcCreate, func(w nfs3.DirOpArgs) message { return &nfs3.CreateArgs{Where: w} }},
		{nfs3.ProcMkdir, func(w nfs3.DirOpArgs) message { return &nfs3.MkdirArgs{Where: w} }},
		{nfs3.ProcSymlink, func(w nfs3.DirOpArgs) message { return &nfs3.SymlinkArgs{Where: w, Path: []byte("p")} }},
		{nfs3.ProcMknod, func(w nfs3.DirOpArgs) message { return &nfs3.MknodArgs{Where: w, Type: nfs3.TypeSock} }},
	}
	names := map[string]nfs3.Status{
		".": nfs3.ErrExist, "..": nfs3.ErrExist, "": nfs3.ErrAcces, "/": nfs3.ErrAcces, "a\x00": nfs3.ErrAcces,
		strings.Repeat("n", 1025): nfs3.ErrNameTooLong,
	}
	g, fs, fh := newScene(t)
	clock := fs.clock
	for _, m := range makers {
		for name, want := range names {
			var res nfs3.MakeRes
			g.callNFS(m.proc, m.args(dirOpArgs(fh[vfs.TypeDir], name)), &res)
			assert.Equal(t, want, res.Status, "%s %.10q", nfs3.ProcName(m.proc), name)
			assert.True(t, res.Dir.After.OK)
		}
	}
	assert.Equal(t, clock, fs.clock)
}
