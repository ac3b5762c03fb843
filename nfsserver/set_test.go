package nfsserver

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
)

func (g *testServer) getAttrStatus(fh nfs3.FH) nfs3.Status {
	g.t.Helper()
	var res nfs3.GetAttrRes
	g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh}, &res)
	return res.Status
}

func TestSetExports(t *testing.T) {
	fs, other := newMemFS(), newMemFS()
	var released []string
	of := func(path string, fs vfs.FS, o exports.Options) Export {
		return Export{Path: path, FS: fs, Clients: exports.Everyone(o), Released: func() { released = append(released, path) }}
	}
	g := newTestServer(t, fs, func(c *Config) { c.Exports = []Export{of("/x", fs, exports.Options{})} })
	x := g.handleOf(memRoot)

	// The clients change, and the rest is not disturbed.
	require.NoError(t, g.server.exports.SetExports([]Export{of("/y", other, exports.Options{}), of("/x", fs, exports.Options{ReadOnly: true})}))
	var made nfs3.MakeRes
	g.callNFS(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: dirOpArgs(x, "d")}, &made)
	assert.Equal(t, nfs3.ErrROFS, made.Status)
	y := g.handleOf(memRoot, 0)
	assert.Equal(t, nfs3.OK, g.getAttrStatus(y))
	assert.Empty(t, released)

	// Invalid exports change nothing.
	for _, bad := range [][]Export{
		{of("/x", fs, exports.Options{}), of("/x", other, exports.Options{})},
		{of("/x", fs, exports.Options{}), {Path: "/y"}},
	} {
		assert.Error(t, g.server.exports.SetExports(bad))
	}
	assert.Len(t, g.server.Exports(), 2)
	assert.Equal(t, nfs3.OK, g.getAttrStatus(y))
	assert.Empty(t, released)

	// A removed export is stale, and cannot be mounted.
	require.NoError(t, g.server.exports.SetExports([]Export{of("/x", fs, exports.Options{})}))
	assert.Equal(t, nfs3.ErrStale, g.getAttrStatus(y))
	assert.Equal(t, mount3.ErrNoEnt, g.callMnt("/y").Status)
	assert.Equal(t, []string{"/y"}, released)

	// Another file system with the same name is another export, whose handles
	// have the same format.
	require.NoError(t, g.server.exports.SetExports([]Export{of("/x", other, exports.Options{})}))
	assert.Equal(t, nfs3.OK, g.getAttrStatus(x))
	assert.Equal(t, []string{"/y", "/x"}, released)
	require.NoError(t, g.server.exports.SetExports(nil))
	assert.Equal(t, nfs3.ErrStale, g.getAttrStatus(x))
	assert.Equal(t, []string{"/y", "/x", "/x"}, released)
}

// TestExports checks that Exports returns the exports, with the defaults set.
func TestExports(t *testing.T) {
	fs := newMemFS()
	g := newTestServer(t, fs)
	list := g.server.Exports()
	require.Len(t, list, 1)
	assert.Equal(t, Export{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{Insecure: true}), ID: 0x57d1f0d2}, list[0])
	require.NoError(t, g.server.exports.SetExports(list))
	assert.Equal(t, list, g.server.Exports())
}

// A fakeOpenFS lets GETATTRs wait, and counts those after closed.
type fakeOpenFS struct {
	*memFS
	begun, end chan struct{}
	closed     atomic.Bool
	late       atomic.Int32 // calls after closed
}

func (f *fakeOpenFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	if f.closed.Load() {
		f.late.Add(1)
	}
	if f.begun != nil {
		f.begun <- struct{}{}
		<-f.end
	}
	return vfs.Attr{Type: vfs.TypeDir}, nil
}

// TestReleased checks that a file system is released by the last call that uses
// it.
func TestReleased(t *testing.T) {
	fs := &fakeOpenFS{memFS: newMemFS(), begun: make(chan struct{}), end: make(chan struct{})}
	var released atomic.Int32
	g := newTestServer(t, fs, func(c *Config) { c.Exports[0].Released = func() { released.Add(1) } })
	fh := g.handleOf(memRoot)
	args := nfs3.HandleArgs{Object: fh}
	wire := args.AppendTo(nil)
	serve := func() nfs3.Status {
		call := oncrpc.Call{Proc: nfs3.ProcGetAttr, Args: xdr.NewReader(wire)}
		var rep oncrpc.Reply
		assert.NoError(t, nfsProgram{g.server}.ServeRPC(t.Context(), &call, &rep))
		var res nfs3.GetAttrRes
		r := xdr.NewReader(rep.Head)
		res.Decode(&r)
		return res.Status
	}
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() { assert.Equal(t, nfs3.OK, serve(), "as it began") })
	}
	mounted := make(chan mount3.Status, 1)
	go func() { mounted <- mountProgram{g.server}.serveMnt(t.Context(), new(oncrpc.Call), "/x").Status }()
	for range 4 {
		<-fs.begun
	}
	require.NoError(t, g.server.exports.SetExports(nil))
	assert.Equal(t, nfs3.ErrStale, serve())
	assert.Zero(t, released.Load())
	for range 3 {
		fs.end <- struct{}{}
	}
	fs.end <- struct{}{}
	calls.Wait()
	assert.Equal(t, mount3.OK, <-mounted)
	assert.Equal(t, nfs3.ErrStale, serve())
	assert.EqualValues(t, 1, released.Load(), "once")
}

// TestSetExportsUnderLoad checks that while exports are added, removed and changed, one of them
// serves every call, and that no file system is used after its release.
func TestSetExportsUnderLoad(t *testing.T) {
	var systems []*fakeOpenFS
	open := func() Export {
		fs := &fakeOpenFS{memFS: newMemFS()}
		systems = append(systems, fs)
		return Export{Path: "/x", FS: fs, Released: func() { fs.closed.Store(true) }}
	}
	stays := Export{Path: "/stays", FS: &fakeOpenFS{memFS: newMemFS()}}
	g := newTestServer(t, newMemFS(), func(c *Config) { c.Exports = []Export{stays, open()} })
	fhs := []nfs3.FH{g.handleOf(memRoot, 0), g.handleOf(memRoot, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var served atomic.Int64
	for i := range 4 {
		clients.Go(func() {
			peer := &oncrpc.Peer{Network: "tcp"}
			args := nfs3.HandleArgs{Object: fhs[i%2]}
			wire := args.AppendTo(nil)
			for ctx.Err() == nil {
				call := oncrpc.Call{Proc: nfs3.ProcGetAttr, Args: xdr.NewReader(wire), Peer: peer}
				var rep oncrpc.Reply
				assert.NoError(t, nfsProgram{g.server}.ServeRPC(t.Context(), &call, &rep))
				var res nfs3.GetAttrRes
				r := xdr.NewReader(rep.Head)
				res.Decode(&r)
				if i%2 == 0 {
					assert.Equal(t, nfs3.OK, res.Status, "the remaining export is undisturbed")
				} else {
					assert.Contains(t, []nfs3.Status{nfs3.OK, nfs3.ErrStale}, res.Status)
				}
				served.Add(1)
			}
		})
	}
	for i := 0; i < 300 || served.Load() < 2000; i++ {
		stays.Clients = exports.Everyone(exports.Options{Insecure: true, ReadOnly: i%2 == 0})
		list := []Export{stays}
		if i%3 > 0 {
			list = []Export{open(), stays}
		}
		require.NoError(t, g.server.exports.SetExports(list))
	}
	require.NoError(t, g.server.exports.SetExports([]Export{stays}))
	cancel()
	clients.Wait()
	for _, fs := range systems {
		assert.True(t, fs.closed.Load())
		assert.Zero(t, fs.late.Load())
	}
}

// TestExportsOfCallsApart checks that one call cannot use two exports, nor a
// removed one.
func TestExportsOfCallsApart(t *testing.T) {
	g, _, fh := newScene(t, func(c *Config) { c.Exports = append(c.Exports, Export{Path: "/y", FS: newMemFS()}) })
	x, y, gone := fh[vfs.TypeDir], g.handleOf(memRoot, 1), g.sealHandle(9, make([]byte, 8))
	for _, tt := range []struct {
		from, to nfs3.FH
		want     nfs3.Status
	}{{x, y, nfs3.ErrXDev}, {x, gone, nfs3.ErrStale}, {gone, x, nfs3.ErrStale}} {
		var res nfs3.RenameRes
		g.callNFS(nfs3.ProcRename, &nfs3.RenameArgs{From: dirOpArgs(tt.from, "f"), To: dirOpArgs(tt.to, "g")}, &res)
		assert.Equal(t, tt.want, res.Status)
	}
	g.checkIdle()
}

// A fakeStrayFS reports one object as moved out.
type fakeStrayFS struct {
	*memFS
	out  vfs.Handle
	cred vfs.Cred
}

func (f *fakeStrayFS) Within(_ context.Context, c *vfs.Cred, h vfs.Handle) error {
	f.cred = vfs.Cred{UID: c.UID, GID: c.GID}
	if h == f.out {
		return syscall.ESTALE
	}
	return nil
}

// TestEachSubtreeCheck checks that every procedure calls Within, only with the
// option, and as the caller.
func TestEachSubtreeCheck(t *testing.T) {
	for _, check := range []bool{false, true} {
		stray := &fakeStrayFS{memFS: newMemFS()}
		with := func(c *Config) {
			stray.memFS = c.Exports[0].FS.(*memFS)
			c.Exports[0].FS = stray
			c.Exports[0].Clients = exports.Everyone(exports.Options{SubtreeCheck: check})
		}
		eachProc(t, with, func(t *testing.T, g *testServer, fs *memFS, p procCase, fh nfs3.FH) {
			var ok bool
			stray.out, ok = vfs.NewHandle(fh[handleHead : len(fh)-sealLen])
			require.True(t, ok)
			g.callNFS(p.proc, p.args(fh), p.res)
			want := nfs3.OK
			if check {
				want = nfs3.ErrStale
				assert.Equal(t, vfs.Cred{UID: 1000, GID: 100}, stray.cred)
			}
			assert.Equal(t, want, resultStatus(p.res))
		})
	}
}

// TestAsync checks that with async data is reported as stable without being
// stable, and that no call waits for it.
func TestAsync(t *testing.T) {
	for _, async := range []bool{false, true} {
		g, fs, fh := newScene(t, withOptions(exports.Options{Async: async}))
		var res nfs3.WriteRes
		for how, want := range []nfs3.Stable{nfs3.Unstable, nfs3.DataSync, nfs3.FileSync} {
			g.callNFS(nfs3.ProcWrite, &nfs3.WriteArgs{File: fh[vfs.TypeReg], Data: []byte("x"), Stable: nfs3.Stable(how)}, &res)
			assert.Equal(t, nfs3.WriteRes{Wcc: res.Wcc, Count: 1, Committed: want, Verf: fs.verf}, res)
			if async {
				assert.Equal(t, vfs.Unstable, fs.how)
			} else {
				assert.EqualValues(t, how, fs.how)
			}
		}
		var done nfs3.CommitRes
		commits := fs.commits
		g.callNFS(nfs3.ProcCommit, &nfs3.CommitArgs{File: fh[vfs.TypeReg]}, &done)
		assert.Equal(t, nfs3.OK, done.Status)
		assert.True(t, done.Wcc.After.OK)
		assert.Equal(t, fs.verf, done.Verf)
		assert.Equal(t, async, fs.commits == commits)
		fs.fail = syscall.ESTALE
		g.callNFS(nfs3.ProcCommit, &nfs3.CommitArgs{File: fh[vfs.TypeReg]}, &done)
		assert.Equal(t, nfs3.ErrStale, done.Status)
	}
}

// TestMntByAnother checks that a client without access to an export gets the
// directory through an accessible export above it, as with knfsd.
func TestMntByAnother(t *testing.T) {
	g, _, _ := newScene(t, func(c *Config) {
		c.Exports = append(c.Exports, Export{Path: "/x/d", FS: newMemFS(), Clients: clientsOf(exports.Options{}, "10.0.0.0/8")})
	})
	assert.Equal(t, string(g.handleOf(sceneDir)), string(g.callMnt("/x/d").Handle))
	g.setPeerAddr("10.1.1.1")
	assert.Equal(t, string(g.handleOf(memRoot, 1)), string(g.callMnt("/x/d").Handle))
	g.checkIdle()
}

// TestMntPort checks that a client from an unreserved port is refused if the
// export requires a reserved one.
func TestMntPort(t *testing.T) {
	g := newTestServer(t, newMemFS(), withOptions(exports.Options{}))
	g.peer = &oncrpc.Peer{Addr: g.peer.Addr, Network: "tcp"}
	assert.Equal(t, mount3.OK, g.callMnt("/x").Status)
	g.peer = &oncrpc.Peer{Addr: netip.AddrPortFrom(g.peer.Addr.Addr(), 1024), Network: "tcp"}
	assert.Equal(t, mount3.ErrAcces, g.callMnt("/x").Status)
	assert.Equal(t, nfs3.ErrPerm, g.getAttrStatus(g.handleOf(memRoot)))
	g.peer = &oncrpc.Peer{Addr: g.peer.Addr, Network: "rdma"}
	assert.Equal(t, mount3.OK, g.callMnt("/x").Status)
	assert.Equal(t, nfs3.OK, g.getAttrStatus(g.handleOf(memRoot)))
}
