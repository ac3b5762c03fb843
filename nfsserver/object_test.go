package nfsserver

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/vfs"
)

func TestGetAttr(t *testing.T) {
	g, fs, fh := newScene(t)
	a := &fs.nodes[memRoot].attr
	*a = vfs.Attr{
		Type: vfs.TypeChr, Mode: 0o21755, Nlink: 2, UID: 3, GID: 4, Size: 5, Used: 6, Rdev: vfs.Dev{Major: 7, Minor: 8},
		FSID: 9, FileID: 10, Atime: vfs.Time{Sec: 11, Nsec: 12}, Mtime: vfs.Time{Sec: 13, Nsec: 14}, Ctime: vfs.Time{Sec: 15, Nsec: 16},
	}
	var res nfs3.GetAttrRes
	g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh[vfs.TypeDir]}, &res)
	assert.Equal(t, nfs3.GetAttrRes{Attr: nfs3.Attr{
		Type: nfs3.TypeChr, Mode: 0o1755, Nlink: 2, UID: 3, GID: 4, Size: 5, Used: 6, Rdev: nfs3.SpecData{Major: 7, Minor: 8},
		FSID: 9, FileID: 10, Atime: nfs3.Time{Sec: 11, Nsec: 12}, Mtime: nfs3.Time{Sec: 13, Nsec: 14}, Ctime: nfs3.Time{Sec: 15, Nsec: 16},
	}}, res)
}

func TestSetAttr(t *testing.T) {
	g, fs, fh := newScene(t)
	ctime := toWireTime(fs.nodes[sceneFile].attr.Ctime)
	ctime.Nsec++
	set := nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: 0o170640}, Size: nfs3.OptUint64{Set: true, Value: 3}}
	var res nfs3.WccRes
	g.callNFS(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Object: fh[vfs.TypeReg], Attr: set, Check: true, Guard: ctime}, &res)
	assert.Equal(t, nfs3.ErrNotSync, res.Status)
	assert.True(t, res.Wcc.After.OK)
	old := res.Wcc.After.Attr

	g.callNFS(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Object: fh[vfs.TypeReg], Attr: set, Check: true, Guard: old.Ctime}, &res)
	assert.Equal(t, nfs3.OK, res.Status)
	assert.Equal(t, nfs3.PreOpAttr{OK: true, Size: old.Size, Mtime: old.Mtime, Ctime: old.Ctime}, res.Wcc.Before)
	assert.EqualValues(t, 3, res.Wcc.After.Attr.Size)
	assert.EqualValues(t, 0o640, fs.nodes[sceneFile].attr.Mode, "only the protocol's bits")
}

// TestSetAttrInvalid checks that values that the host would take for "no
// change", or cannot store, are NFS3ERR_INVAL and change nothing.
func TestSetAttrInvalid(t *testing.T) {
	huge := nfs3.OptUint32{Set: true, Value: 1<<32 - 1}
	for name, set := range map[string]nfs3.SetAttr{
		"uid":   {UID: huge},
		"gid":   {GID: huge},
		"size":  {Size: nfs3.OptUint64{Set: true, Value: 1 << 63}},
		"atime": {Atime: nfs3.SetTime{How: nfs3.SetToClientTime, Time: nfs3.Time{Nsec: 1e9}}},
		"mtime": {Mtime: nfs3.SetTime{How: nfs3.SetToClientTime, Time: nfs3.Time{Nsec: 1<<30 - 1}}}, // UTIME_NOW
	} {
		t.Run(name, func(t *testing.T) {
			g, fs, fh := newScene(t)
			clock := fs.clock
			var res nfs3.WccRes
			g.callNFS(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Object: fh[vfs.TypeReg], Attr: set}, &res)
			assert.Equal(t, nfs3.ErrInval, res.Status)
			assert.True(t, res.Wcc.After.OK)
			var made nfs3.MakeRes
			g.callNFS(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: dirOpArgs(fh[vfs.TypeDir], "m"), Attr: set}, &made)
			assert.Equal(t, nfs3.ErrInval, made.Status)
			assert.True(t, made.Dir.After.OK)
			assert.Equal(t, clock, fs.clock)
		})
	}
	// Values that are not used are not checked.
	_, status := toSetAttr(&nfs3.SetAttr{
		UID:   nfs3.OptUint32{Value: 1<<32 - 1},
		Atime: nfs3.SetTime{How: nfs3.SetToServerTime, Time: nfs3.Time{Nsec: 1e9}},
	})
	assert.Equal(t, nfs3.OK, status)
}

func TestLookup(t *testing.T) {
	g, fs, fh := newScene(t)
	root := fh[vfs.TypeDir]
	var res nfs3.LookupRes
	look := func(name string) nfs3.LookupRes {
		a := dirOpArgs(root, name)
		g.callNFS(nfs3.ProcLookup, &a, &res)
		assert.True(t, res.DirAttr.OK, "%q", name)
		return res
	}
	found := look("f")
	assert.Equal(t, nfs3.OK, found.Status)
	assert.Equal(t, fh[vfs.TypeReg], found.Object)
	assert.Equal(t, nfs3.TypeReg, found.ObjAttr.Attr.Type)
	assert.Equal(t, root, look(".").Object)
	assert.Equal(t, root, look("..").Object, "not out of the export")

	for name, want := range map[string]nfs3.Status{
		"nothing":                 nfs3.ErrNoEnt,
		"":                        nfs3.ErrAcces, // RFC 1813, Section 3.2, item 1
		"a/b":                     nfs3.ErrAcces, // item 5
		"a\x00b":                  nfs3.ErrAcces,
		strings.Repeat("n", 256):  nfs3.ErrNameTooLong, // from the file system
		strings.Repeat("n", 1025): nfs3.ErrNameTooLong,
		strings.Repeat("n", 9999): nfs3.ErrNameTooLong,
	} {
		assert.Equal(t, want, look(name).Status, "%.20q", name)
	}
	fs.nodes[memRoot].names[0].name = "\xff\xfe \n"
	assert.Equal(t, nfs3.OK, look("\xff\xfe \n").Status, "names are bytes")

	root = fh[vfs.TypeReg]
	assert.Equal(t, nfs3.ErrNotDir, look("f").Status)
}

func TestAccess(t *testing.T) {
	var res nfs3.AccessRes
	g, _, fh := newScene(t)
	g.callNFS(nfs3.ProcAccess, &nfs3.AccessArgs{Object: fh[vfs.TypeDir], Access: 0xffffffff}, &res)
	assert.Equal(t, nfs3.AccessRes{Attr: res.Attr, Access: 0x3f}, res, "only the protocol's rights")
	assert.True(t, res.Attr.OK)

	g, fs, fh := newScene(t, withOptions(exports.Options{ReadOnly: true}))
	g.callNFS(nfs3.ProcAccess, &nfs3.AccessArgs{Object: fh[vfs.TypeDir], Access: 0x3f}, &res)
	assert.Equal(t, nfs3.AccessRead|nfs3.AccessLookup|nfs3.AccessExecute, res.Access)
	for typ, want := range map[vfs.Type]uint32{
		vfs.TypeReg: 0, vfs.TypeLnk: 0,
		vfs.TypeFIFO: nfs3.AccessModify, vfs.TypeSock: nfs3.AccessModify, vfs.TypeChr: nfs3.AccessModify, vfs.TypeBlk: nfs3.AccessModify,
	} {
		fs.nodes[sceneFile].attr.Type = typ
		g.callNFS(nfs3.ProcAccess, &nfs3.AccessArgs{Object: fh[vfs.TypeReg], Access: nfs3.AccessModify}, &res)
		assert.Equal(t, want, res.Access, "data for a pipe stays with the client")
	}
}

func TestReadLink(t *testing.T) {
	g, fs, fh := newScene(t)
	var res nfs3.ReadLinkRes
	path := "../\xff" + strings.Repeat("x", 4000)
	fs.nodes[sceneLink].target = path
	g.callNFS(nfs3.ProcReadLink, &nfs3.HandleArgs{Object: fh[vfs.TypeLnk]}, &res)
	assert.Equal(t, nfs3.OK, res.Status)
	assert.Equal(t, path, string(res.Path))
	assert.True(t, res.Attr.OK)

	g.callNFS(nfs3.ProcReadLink, &nfs3.HandleArgs{Object: fh[vfs.TypeReg]}, &res)
	assert.Equal(t, nfs3.ErrInval, res.Status) // RFC 1813, Section 3.3.5
	assert.True(t, res.Attr.OK)

	// R8267-3.1-1: if the reply has no space, the caller gets an error.
	const systemErr = 5
	g.maxReply = 4000
	head, item := g.serveCall((&nfs3.HandleArgs{Object: fh[vfs.TypeLnk]}).AppendTo(g.callHeader(nfs3.Program, 3, nfs3.ProcReadLink)), nil)
	stat, _ := g.parseAccepted(head)
	assert.EqualValues(t, systemErr, stat)
	require.Nil(t, item)
}
