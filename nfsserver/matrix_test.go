package nfsserver

import (
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A procCase is one procedure with arguments that succeed in a scene; fh is the handle of an
// object with the given type.
type procCase struct {
	proc   uint32
	args   func(fh nfs3.FH) message
	res    message
	change bool // refused on a read-only export
	kind   vfs.Type
}

// rootHandle returns the root's handle in a memFS exported as /x.
func rootHandle() nfs3.FH {
	h := memHandle(memRoot)
	return sealWithKey(testKey, xID, &h)
}

// xID is an export's identity for the path /x.
const xID = 0x57d1f0d2

// sealWithKey returns the file handle that a server with the key makes.
func sealWithKey(key [32]byte, export uint32, h *vfs.Handle) nfs3.FH {
	r, err := exportset.New(Config{Key: key})
	if err != nil {
		panic(err)
	}
	return r.AppendHandle(nil, &exportset.Exported{ID: export}, h)
}

var procCases = []procCase{
	{nfs3.ProcGetAttr, func(fh nfs3.FH) message { return &nfs3.HandleArgs{Object: fh} }, new(nfs3.GetAttrRes), false, vfs.TypeDir},
	{nfs3.ProcSetAttr, func(fh nfs3.FH) message {
		return &nfs3.SetAttrArgs{Object: fh, Attr: nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: 0o700}}}
	}, new(nfs3.WccRes), true, vfs.TypeDir},
	{nfs3.ProcLookup, func(fh nfs3.FH) message { a := dirOpArgs(fh, "f"); return &a }, new(nfs3.LookupRes), false, vfs.TypeDir},
	{nfs3.ProcAccess, func(fh nfs3.FH) message { return &nfs3.AccessArgs{Object: fh, Access: 0x3f} }, new(nfs3.AccessRes), false, vfs.TypeDir},
	{nfs3.ProcReadLink, func(fh nfs3.FH) message { return &nfs3.HandleArgs{Object: fh} }, new(nfs3.ReadLinkRes), false, vfs.TypeLnk},
	{nfs3.ProcRead, func(fh nfs3.FH) message { return &nfs3.ReadArgs{File: fh, Count: 100} }, new(nfs3.ReadRes), false, vfs.TypeReg},
	{nfs3.ProcWrite, func(fh nfs3.FH) message { return &nfs3.WriteArgs{File: fh, Data: []byte("data!")} }, new(nfs3.WriteRes), true, vfs.TypeReg},
	{nfs3.ProcCreate, func(fh nfs3.FH) message { return &nfs3.CreateArgs{Where: dirOpArgs(fh, "new")} }, new(nfs3.MakeRes), true, vfs.TypeDir},
	{nfs3.ProcMkdir, func(fh nfs3.FH) message { return &nfs3.MkdirArgs{Where: dirOpArgs(fh, "new")} }, new(nfs3.MakeRes), true, vfs.TypeDir},
	{nfs3.ProcSymlink, func(fh nfs3.FH) message { return &nfs3.SymlinkArgs{Where: dirOpArgs(fh, "new"), Path: []byte("to")} }, new(nfs3.MakeRes), true, vfs.TypeDir},
	{nfs3.ProcMknod, func(fh nfs3.FH) message { return &nfs3.MknodArgs{Where: dirOpArgs(fh, "new"), Type: nfs3.TypeFIFO} }, new(nfs3.MakeRes), true, vfs.TypeDir},
	{nfs3.ProcRemove, func(fh nfs3.FH) message { a := dirOpArgs(fh, "f"); return &a }, new(nfs3.WccRes), true, vfs.TypeDir},
	{nfs3.ProcRmdir, func(fh nfs3.FH) message { a := dirOpArgs(fh, "d"); return &a }, new(nfs3.WccRes), true, vfs.TypeDir},
	{nfs3.ProcRename, func(fh nfs3.FH) message { return &nfs3.RenameArgs{From: dirOpArgs(fh, "f"), To: dirOpArgs(fh, "g")} }, new(nfs3.RenameRes), true, vfs.TypeDir},
	{nfs3.ProcLink, func(fh nfs3.FH) message { return &nfs3.LinkArgs{File: fh, Link: dirOpArgs(rootHandle(), "g")} }, new(nfs3.LinkRes), true, vfs.TypeReg},
	{nfs3.ProcReadDir, func(fh nfs3.FH) message { return &nfs3.ReadDirArgs{Dir: fh, Count: 4096} }, new(dirListing), false, vfs.TypeDir},
	{nfs3.ProcReadDirPlus, func(fh nfs3.FH) message { return &nfs3.ReadDirPlusArgs{Dir: fh, DirCount: 4096, MaxCount: 4096} }, &dirListing{plus: true}, false, vfs.TypeDir},
	{nfs3.ProcFSStat, func(fh nfs3.FH) message { return &nfs3.HandleArgs{Object: fh} }, new(nfs3.FSStatRes), false, vfs.TypeDir},
	{nfs3.ProcFSInfo, func(fh nfs3.FH) message { return &nfs3.HandleArgs{Object: fh} }, new(nfs3.FSInfoRes), false, vfs.TypeDir},
	{nfs3.ProcPathConf, func(fh nfs3.FH) message { return &nfs3.HandleArgs{Object: fh} }, new(nfs3.PathConfRes), false, vfs.TypeDir},
	{nfs3.ProcCommit, func(fh nfs3.FH) message { return &nfs3.CommitArgs{File: fh} }, new(nfs3.CommitRes), true, vfs.TypeReg},
}

// The objects in a scene.
const (
	sceneFile = 100 + iota
	sceneDir
	sceneLink
)

// newScene returns a testServer whose file system has the file f, the directory d and the
// symbolic link l, and the objects' handles by type.
func newScene(t testing.TB, change ...func(*Config)) (*testServer, *memFS, map[vfs.Type]nfs3.FH) {
	t.Helper()
	fs := newMemFS()
	g := newTestServer(t, fs, change...)
	list := g.server.Exports()
	open := slices.Clone(list)
	open[0].Clients = nil
	require.NoError(t, g.server.exports.SetExports(open))
	handles := map[vfs.Type]nfs3.FH{vfs.TypeDir: g.handleOf(memRoot), vfs.TypeReg: g.makeFile("f", []byte("content"))}
	g.makeDir("d")
	var made nfs3.MakeRes
	g.callNFS(nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: dirOpArgs(g.handleOf(memRoot), "l"), Path: []byte("f")}, &made)
	handles[vfs.TypeLnk] = append(nfs3.FH{}, made.Object...)
	require.NoError(t, g.server.exports.SetExports(list))
	return g, fs, handles
}

// eachProc runs f for each procedure on a separate scene.
func eachProc(t *testing.T, change func(*Config), f func(t *testing.T, g *testServer, fs *memFS, p procCase, fh nfs3.FH)) {
	t.Helper()
	require.Len(t, procCases, int(nfs3.NumProc)-1, "all except NULL")
	for _, p := range procCases {
		t.Run(nfs3.ProcName(p.proc), func(t *testing.T) {
			g, fs, handles := newScene(t, func(c *Config) {
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
		eachProc(t, nil, func(t *testing.T, g *testServer, fs *memFS, p procCase, fh nfs3.FH) {
			g.apart = apart
			g.callNFS(p.proc, p.args(fh), p.res)
			assert.Equal(t, nfs3.OK, resultStatus(p.res))
			assert.Equal(t, vfs.Cred{UID: 1000, GID: 100, Groups: []uint32{100, 200}}, fs.cred)
			assert.Empty(t, g.log.String())
		})
	}
}

func TestEachHandle(t *testing.T) {
	stale := func(g *testServer) nfs3.FH { return g.handleOf(12345) }
	for _, tt := range []struct {
		name string
		fh   func(g *testServer) nfs3.FH
		want nfs3.Status
	}{
		{"empty", func(*testServer) nfs3.FH { return nil }, nfs3.ErrBadHandle},
		{"head cut", func(g *testServer) nfs3.FH { return g.handleOf(memRoot)[:4] }, nfs3.ErrBadHandle},
		{"no room for a seal", func(g *testServer) nfs3.FH { return g.handleOf(memRoot)[:handleHead+sealLen-1] }, nfs3.ErrBadHandle},
		{"without its seal", func(g *testServer) nfs3.FH { return g.handleOf(memRoot)[:handleHead+8] }, nfs3.ErrBadHandle},
		{"other version", func(g *testServer) nfs3.FH { return append(nfs3.FH{1}, g.handleOf(memRoot)[1:]...) }, nfs3.ErrBadHandle},
		{"no handle of the file system", func(g *testServer) nfs3.FH { return g.sealHandle(g.exportAt(0).ID, make([]byte, 7)) }, nfs3.ErrBadHandle},
		{"longer than the file system's", func(g *testServer) nfs3.FH {
			return append(g.handleOf(memRoot), make([]byte, nfs3.FHSize-len(g.handleOf(memRoot)))...)
		}, nfs3.ErrBadHandle},
		{"export gone", func(g *testServer) nfs3.FH { return g.sealHandle(9, make([]byte, 8)) }, nfs3.ErrStale},
		{"cut", func(g *testServer) nfs3.FH { fh := g.handleOf(memRoot); return fh[:len(fh)-1] }, nfs3.ErrStale},
		{"other key", func(g *testServer) nfs3.FH {
			h := memHandle(memRoot)
			return sealWithKey([32]byte{1}, g.exportAt(0).ID, &h)
		}, nfs3.ErrStale},
		{"object gone", stale, nfs3.ErrStale},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachProc(t, nil, func(t *testing.T, g *testServer, _ *memFS, p procCase, _ nfs3.FH) {
				g.callNFS(p.proc, p.args(tt.fh(g)), p.res)
				assert.Equal(t, tt.want, resultStatus(p.res))
			})
		})
	}
}

// TestEachArguments checks that truncated arguments, or arguments followed by
// more bytes, are GARBAGE_ARGS, and that nothing is done.
func TestEachArguments(t *testing.T) {
	const garbageArgs = 4
	eachProc(t, nil, func(t *testing.T, g *testServer, fs *memFS, p procCase, fh nfs3.FH) {
		args := p.args(fh)
		head := g.callHeader(nfs3.Program, nfs3.Version, p.proc)
		wire := xdr.AppendFixed(args.AppendTo(nil), dataItem(args))
		clock := fs.clock
		for n := 0; n < len(wire); n++ {
			reply, _ := g.serveCall(append(head[:len(head):len(head)], wire[:n]...), nil)
			stat, results := g.parseAccepted(reply)
			require.EqualValues(t, garbageArgs, stat, "cut after %d bytes", n)
			require.Empty(t, results)
		}
		reply, _ := g.serveCall(append(append(head, wire...), 0, 0, 0, 0), nil)
		stat, _ := g.parseAccepted(reply)
		assert.EqualValues(t, garbageArgs, stat, "four bytes more")
		assert.Equal(t, clock, fs.clock, "no change")
	})
}

func TestEachReadOnly(t *testing.T) {
	eachProc(t, withOptions(exports.Options{ReadOnly: true}), func(t *testing.T, g *testServer, fs *memFS, p procCase, fh nfs3.FH) {
		clock := fs.clock
		g.callNFS(p.proc, p.args(fh), p.res)
		if !p.change {
			assert.Equal(t, nfs3.OK, resultStatus(p.res))
			return
		}
		assert.Equal(t, nfs3.ErrROFS, resultStatus(p.res))
		assert.Equal(t, clock, fs.clock, "no change")
		for _, a := range postOpAttrs(p.res) {
			assert.True(t, a.OK, "the failing arm has attributes")
		}
	})
}

// postOpAttrs returns the objects' attributes in the failure results of a procedure that makes
// changes. RENAME does not read those for its second directory if the first cannot be changed.
func postOpAttrs(res message) []nfs3.PostOpAttr {
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
	others := func(c *Config) { c.Exports[0].Clients = clientsOf(exports.Options{}, "198.51.100.0/24") }
	eachProc(t, others, func(t *testing.T, g *testServer, fs *memFS, p procCase, fh nfs3.FH) {
		fs.fail = syscall.EIO // the file system is not called at all
		g.callNFS(p.proc, p.args(fh), p.res)
		if p.proc == nfs3.ProcFSInfo {
			res := p.res.(*nfs3.FSInfoRes)
			assert.Equal(t, nfs3.OK, res.Status)
			assert.False(t, res.Attr.OK)
			return
		}
		assert.Equal(t, nfs3.ErrAcces, resultStatus(p.res))
	})
}

func TestEachFileSystemError(t *testing.T) {
	eachProc(t, nil, func(t *testing.T, g *testServer, fs *memFS, p procCase, fh nfs3.FH) {
		fs.fail = syscall.EDQUOT
		g.callNFS(p.proc, p.args(fh), p.res)
		assert.Equal(t, nfs3.ErrDQuot, resultStatus(p.res))
		assert.Contains(t, g.log.String(), "raise the user's quota")
		assert.NotContains(t, g.log.String(), nfs3.ProcName(p.proc))
		fs.fail = syscall.EDOM
		g.callNFS(p.proc, p.args(fh), p.res)
		assert.Equal(t, nfs3.ErrIO, resultStatus(p.res))
		assert.Contains(t, g.log.String(), nfs3.ProcName(p.proc))
	})
}
