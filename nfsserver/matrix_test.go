package nfsserver

import (
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A procCase is one procedure with arguments that succeed on a scene; fh is the
// handle of an object of the given kind.
type procCase struct {
	proc   uint32
	args   func(fh nfs3.FH) message
	res    message
	change bool // refused on a read-only export
	kind   vfs.Type
}

// rootOfX returns the handle of the root of a memFS exported as /x.
func rootOfX() nfs3.FH {
	h := memHandle(memRoot)
	return sealedBy(testKey, xID, &h)
}

// xID is the identity of an export /x.
const xID = 0x57d1f0d2

// sealedBy returns the file handle that a server with the key makes.
func sealedBy(key [32]byte, export uint32, h *vfs.Handle) nfs3.FH {
	r, err := realm.New(Config{Key: key})
	if err != nil {
		panic(err)
	}
	return r.AppendHandle(nil, &realm.Exported{ID: export}, h)
}

var procCases = []procCase{
	{nfs3.ProcGetAttr, func(fh nfs3.FH) message { return &nfs3.HandleArgs{Object: fh} }, new(nfs3.GetAttrRes), false, vfs.TypeDir},
	{nfs3.ProcSetAttr, func(fh nfs3.FH) message {
		return &nfs3.SetAttrArgs{Object: fh, Attr: nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: 0o700}}}
	}, new(nfs3.WccRes), true, vfs.TypeDir},
	{nfs3.ProcLookup, func(fh nfs3.FH) message { a := in(fh, "f"); return &a }, new(nfs3.LookupRes), false, vfs.TypeDir},
	{nfs3.ProcAccess, func(fh nfs3.FH) message { return &nfs3.AccessArgs{Object: fh, Access: 0x3f} }, new(nfs3.AccessRes), false, vfs.TypeDir},
	{nfs3.ProcReadLink, func(fh nfs3.FH) message { return &nfs3.HandleArgs{Object: fh} }, new(nfs3.ReadLinkRes), false, vfs.TypeLnk},
	{nfs3.ProcRead, func(fh nfs3.FH) message { return &nfs3.ReadArgs{File: fh, Count: 100} }, new(nfs3.ReadRes), false, vfs.TypeReg},
	{nfs3.ProcWrite, func(fh nfs3.FH) message { return &nfs3.WriteArgs{File: fh, Data: []byte("data!")} }, new(nfs3.WriteRes), true, vfs.TypeReg},
	{nfs3.ProcCreate, func(fh nfs3.FH) message { return &nfs3.CreateArgs{Where: in(fh, "new")} }, new(nfs3.MakeRes), true, vfs.TypeDir},
	{nfs3.ProcMkdir, func(fh nfs3.FH) message { return &nfs3.MkdirArgs{Where: in(fh, "new")} }, new(nfs3.MakeRes), true, vfs.TypeDir},
	{nfs3.ProcSymlink, func(fh nfs3.FH) message { return &nfs3.SymlinkArgs{Where: in(fh, "new"), Path: []byte("to")} }, new(nfs3.MakeRes), true, vfs.TypeDir},
	{nfs3.ProcMknod, func(fh nfs3.FH) message { return &nfs3.MknodArgs{Where: in(fh, "new"), Type: nfs3.TypeFIFO} }, new(nfs3.MakeRes), true, vfs.TypeDir},
	{nfs3.ProcRemove, func(fh nfs3.FH) message { a := in(fh, "f"); return &a }, new(nfs3.WccRes), true, vfs.TypeDir},
	{nfs3.ProcRmdir, func(fh nfs3.FH) message { a := in(fh, "d"); return &a }, new(nfs3.WccRes), true, vfs.TypeDir},
	{nfs3.ProcRename, func(fh nfs3.FH) message { return &nfs3.RenameArgs{From: in(fh, "f"), To: in(fh, "g")} }, new(nfs3.RenameRes), true, vfs.TypeDir},
	{nfs3.ProcLink, func(fh nfs3.FH) message { return &nfs3.LinkArgs{File: fh, Link: in(rootOfX(), "g")} }, new(nfs3.LinkRes), true, vfs.TypeReg},
	{nfs3.ProcReadDir, func(fh nfs3.FH) message { return &nfs3.ReadDirArgs{Dir: fh, Count: 4096} }, new(listing), false, vfs.TypeDir},
	{nfs3.ProcReadDirPlus, func(fh nfs3.FH) message { return &nfs3.ReadDirPlusArgs{Dir: fh, DirCount: 4096, MaxCount: 4096} }, &listing{plus: true}, false, vfs.TypeDir},
	{nfs3.ProcFSStat, func(fh nfs3.FH) message { return &nfs3.HandleArgs{Object: fh} }, new(nfs3.FSStatRes), false, vfs.TypeDir},
	{nfs3.ProcFSInfo, func(fh nfs3.FH) message { return &nfs3.HandleArgs{Object: fh} }, new(nfs3.FSInfoRes), false, vfs.TypeDir},
	{nfs3.ProcPathConf, func(fh nfs3.FH) message { return &nfs3.HandleArgs{Object: fh} }, new(nfs3.PathConfRes), false, vfs.TypeDir},
	{nfs3.ProcCommit, func(fh nfs3.FH) message { return &nfs3.CommitArgs{File: fh} }, new(nfs3.CommitRes), true, vfs.TypeReg},
}

// The objects of a scene.
const (
	sceneFile = 100 + iota
	sceneDir
	sceneLink
)

// scene returns a rig whose file system has the file f, the directory d and the
// symbolic link l, and the objects' handles by type.
func scene(t testing.TB, change ...func(*Config)) (*rig, *memFS, map[vfs.Type]nfs3.FH) {
	t.Helper()
	fs := newMemFS()
	g := newRig(t, fs, change...)
	list := g.server.Exports()
	open := slices.Clone(list)
	open[0].Clients = nil
	require.NoError(t, g.server.SetExports(open))
	handles := map[vfs.Type]nfs3.FH{vfs.TypeDir: g.fh(memRoot), vfs.TypeReg: g.put("f", []byte("content"))}
	g.mkdir("d")
	var made nfs3.MakeRes
	g.call(nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: in(g.fh(memRoot), "l"), Path: []byte("f")}, &made)
	handles[vfs.TypeLnk] = append(nfs3.FH{}, made.Object...)
	require.NoError(t, g.server.SetExports(list))
	return g, fs, handles
}

// eachProc runs f for each procedure on a separate scene.
func eachProc(t *testing.T, change func(*Config), f func(t *testing.T, g *rig, fs *memFS, p procCase, fh nfs3.FH)) {
	t.Helper()
	require.Len(t, procCases, int(nfs3.NumProc)-1, "all except NULL")
	for _, p := range procCases {
		t.Run(nfs3.ProcName(p.proc), func(t *testing.T) {
			g, fs, handles := scene(t, func(c *Config) {
				if change != nil {
					change(c)
				}
			})
			f(t, g, fs, p, handles[p.kind])
		})
	}
}

func TestEachSucceeds(t *testing.T) {
	for _, apart := range []bool{false, true} {
		eachProc(t, nil, func(t *testing.T, g *rig, fs *memFS, p procCase, fh nfs3.FH) {
			g.apart = apart
			g.call(p.proc, p.args(fh), p.res)
			assert.Equal(t, nfs3.OK, statusOfResults(p.res))
			assert.Equal(t, vfs.Cred{UID: 1000, GID: 100, Groups: []uint32{100, 200}}, fs.cred)
			assert.Empty(t, g.log.String())
		})
	}
}

func TestEachHandle(t *testing.T) {
	stale := func(g *rig) nfs3.FH { return g.fh(12345) }
	for _, tt := range []struct {
		name string
		fh   func(g *rig) nfs3.FH
		want nfs3.Status
	}{
		{"empty", func(*rig) nfs3.FH { return nil }, nfs3.ErrBadHandle},
		{"head cut", func(g *rig) nfs3.FH { return g.fh(memRoot)[:4] }, nfs3.ErrBadHandle},
		{"no room for a seal", func(g *rig) nfs3.FH { return g.fh(memRoot)[:handleHead+sealLen-1] }, nfs3.ErrBadHandle},
		{"without its seal", func(g *rig) nfs3.FH { return g.fh(memRoot)[:handleHead+8] }, nfs3.ErrBadHandle},
		{"other version", func(g *rig) nfs3.FH { return append(nfs3.FH{1}, g.fh(memRoot)[1:]...) }, nfs3.ErrBadHandle},
		{"no handle of the file system", func(g *rig) nfs3.FH { return g.sealed(g.export(0).ID, make([]byte, 7)) }, nfs3.ErrBadHandle},
		{"longer than the file system's", func(g *rig) nfs3.FH { return append(g.fh(memRoot), make([]byte, nfs3.FHSize-len(g.fh(memRoot)))...) }, nfs3.ErrBadHandle},
		{"export gone", func(g *rig) nfs3.FH { return g.sealed(9, make([]byte, 8)) }, nfs3.ErrStale},
		{"cut", func(g *rig) nfs3.FH { fh := g.fh(memRoot); return fh[:len(fh)-1] }, nfs3.ErrStale},
		{"other key", func(g *rig) nfs3.FH {
			h := memHandle(memRoot)
			return sealedBy([32]byte{1}, g.export(0).ID, &h)
		}, nfs3.ErrStale},
		{"object gone", stale, nfs3.ErrStale},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachProc(t, nil, func(t *testing.T, g *rig, _ *memFS, p procCase, _ nfs3.FH) {
				g.call(p.proc, p.args(tt.fh(g)), p.res)
				assert.Equal(t, tt.want, statusOfResults(p.res))
			})
		})
	}
}

// TestEachArguments checks that truncated arguments, or arguments followed by
// more bytes, are GARBAGE_ARGS, and that nothing is done.
func TestEachArguments(t *testing.T) {
	const garbageArgs = 4
	eachProc(t, nil, func(t *testing.T, g *rig, fs *memFS, p procCase, fh nfs3.FH) {
		args := p.args(fh)
		head := g.header(nfs3.Program, nfs3.Version, p.proc)
		wire := xdr.AppendFixed(args.AppendTo(nil), itemOf(args))
		clock := fs.clock
		for n := 0; n < len(wire); n++ {
			reply, _ := g.serve(append(head[:len(head):len(head)], wire[:n]...), nil)
			stat, results := g.accept(reply)
			require.EqualValues(t, garbageArgs, stat, "cut after %d bytes", n)
			require.Empty(t, results)
		}
		reply, _ := g.serve(append(append(head, wire...), 0, 0, 0, 0), nil)
		stat, _ := g.accept(reply)
		assert.EqualValues(t, garbageArgs, stat, "four bytes more")
		assert.Equal(t, clock, fs.clock, "no change")
	})
}

func TestEachReadOnly(t *testing.T) {
	eachProc(t, options(exports.Options{ReadOnly: true}), func(t *testing.T, g *rig, fs *memFS, p procCase, fh nfs3.FH) {
		clock := fs.clock
		g.call(p.proc, p.args(fh), p.res)
		if !p.change {
			assert.Equal(t, nfs3.OK, statusOfResults(p.res))
			return
		}
		assert.Equal(t, nfs3.ErrROFS, statusOfResults(p.res))
		assert.Equal(t, clock, fs.clock, "no change")
		for _, a := range afterOf(p.res) {
			assert.True(t, a.OK, "the failing arm has attributes")
		}
	})
}

// afterOf returns the attributes of the objects in the failure results of a
// procedure that makes changes. RENAME does not read those of its second
// directory if the first cannot be changed.
func afterOf(res message) []nfs3.PostOpAttr {
	switch s := res.(type) {
	case *nfs3.WccRes:
		return []nfs3.PostOpAttr{s.Wcc.After}
	case *nfs3.WriteRes:
		return []nfs3.PostOpAttr{s.Wcc.After}
	case *nfs3.CommitRes:
		return []nfs3.PostOpAttr{s.Wcc.After}
	case *nfs3.MakeRes:
		return []nfs3.PostOpAttr{s.Dir.After}
	case *nfs3.RenameRes:
		return []nfs3.PostOpAttr{s.FromDir.After}
	case *nfs3.LinkRes:
		return []nfs3.PostOpAttr{s.Attr, s.Dir.After}
	}
	return nil
}

func TestEachClient(t *testing.T) {
	others := func(c *Config) { c.Exports[0].Clients = hosts(exports.Options{}, "198.51.100.0/24") }
	eachProc(t, others, func(t *testing.T, g *rig, fs *memFS, p procCase, fh nfs3.FH) {
		fs.fail = syscall.EIO // the file system is not called at all
		g.call(p.proc, p.args(fh), p.res)
		if p.proc == nfs3.ProcFSInfo {
			res := p.res.(*nfs3.FSInfoRes)
			assert.Equal(t, nfs3.OK, res.Status)
			assert.False(t, res.Attr.OK)
			return
		}
		assert.Equal(t, nfs3.ErrAcces, statusOfResults(p.res))
	})
}

func TestEachFileSystemError(t *testing.T) {
	eachProc(t, nil, func(t *testing.T, g *rig, fs *memFS, p procCase, fh nfs3.FH) {
		fs.fail = syscall.EDQUOT
		g.call(p.proc, p.args(fh), p.res)
		assert.Equal(t, nfs3.ErrDQuot, statusOfResults(p.res))
		assert.Empty(t, g.log.String())
		fs.fail = syscall.EDOM
		g.call(p.proc, p.args(fh), p.res)
		assert.Equal(t, nfs3.ErrIO, statusOfResults(p.res))
		assert.Contains(t, g.log.String(), nfs3.ProcName(p.proc))
	})
}
