package nfsclient

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A fakeConn is a connection to a server in the same process.
type fakeConn struct {
	t      testing.TB
	mux    *oncrpc.Mux
	placed bool // items travel apart, as over RDMA; otherwise inline, as over TCP

	// before may reply to a call instead of the server, with results or an
	// error. after may replace the server's results. Both may inspect the call
	// and wait.
	before func(ctx context.Context, x *oncrpc.Exchange) (results []byte, err error)
	after  func(x *oncrpc.Exchange, results []byte) []byte

	mu          sync.Mutex
	xid         uint32
	count       [nfs3.NumProc]int // NFS calls that reached the server
	inFlight    int               // calls in flight,
	maxInFlight int               // and their maximum
}

func (w *fakeConn) beginCall() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.xid++
	w.inFlight++
	w.maxInFlight = max(w.maxInFlight, w.inFlight)
	return w.xid
}

func (w *fakeConn) finishCall() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight--
}

// Call implements oncrpc.Caller.
func (w *fakeConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	xid := w.beginCall()
	defer w.finishCall()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.checkItems(x)
	if w.before != nil {
		results, err := w.before(ctx, x)
		if err != nil {
			return err
		}
		if results != nil {
			return w.setResults(x, results)
		}
	}
	return w.serveCall(ctx, xid, x)
}

// checkItems checks that only eligible items travel apart: R8267-4-1,
// R8267-4-2.
func (w *fakeConn) checkItems(x *oncrpc.Exchange) {
	if x.Prog == nfs3.Program {
		arg, result := nfs3.DDPEligible(x.Proc)
		assert.True(w.t, arg || x.Item == nil, nfs3.ProcName(x.Proc))
		assert.True(w.t, result || x.Sink == nil, nfs3.ProcName(x.Proc))
	}
	assert.Nil(w.t, x.Tail)
}

// setResults sets a call's results.
func (w *fakeConn) setResults(x *oncrpc.Exchange, results []byte) error {
	x.Lent = buf.Default.Get(len(results))
	copy(x.Lent.B, results)
	x.Results = xdr.NewReader(x.Lent.B)
	return nil
}

func (w *fakeConn) serveCall(ctx context.Context, xid uint32, x *oncrpc.Exchange) error {
	if x.Prog == nfs3.Program {
		w.mu.Lock()
		w.count[x.Proc]++
		w.mu.Unlock()
	}
	// R8267-3-2, R8267-4.1-1: the client provides enough memory, and the server
	// gets exactly that.
	req := oncrpc.Request{
		Msg:      append(oncrpc.AppendCall(nil, xid, x, "client"), x.Args...),
		Peer:     &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:700"), Network: "rdma"},
		MaxReply: 24 + x.MaxResults + len(x.Sink) + xdr.Pad(len(x.Sink)),
	}
	if w.placed && len(x.Item) > 0 {
		req.Item, req.ItemPos = x.Item, len(req.Msg)
	} else {
		req.Msg = xdr.AppendFixed(req.Msg, x.Item)
	}
	var rep oncrpc.Reply
	require.True(w.t, w.mux.Serve(ctx, &req, &rep))
	defer rep.DropItem()
	head := rep.Head
	var item []byte
	if rep.Item != nil {
		item = rep.Item.B
	}
	if !w.placed || len(x.Sink) == 0 {
		head, item = xdr.AppendFixed(head, item), nil
	}
	r := xdr.NewReader(head)
	if err := oncrpc.ReadReply(&r, xid); err != nil {
		return err
	}
	results := head[r.Offset():]
	if w.after != nil {
		results = w.after(x, results)
	}
	if err := w.setResults(x, results); err != nil {
		return err
	}
	if w.placed && len(x.Sink) > 0 {
		x.Results.SetMoved(x.Sink[:copy(x.Sink, item)])
	}
	return nil
}

// callCount returns the number of calls to a procedure that reached the server.
func (w *fakeConn) callCount(proc uint32) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count[proc]
}

// A testServer is a server with a file system in memory, and a client that
// calls it.
type testServer struct {
	*fakeConn
	mem  *memFS
	c    *Client
	root nfs3.FH
	fs   *FS
	lost failureList
}

// failureList collects the errors that WriteBehinds reported for lost data.
type failureList struct {
	mu  sync.Mutex
	all []error
}

func (f *failureList) addFailure(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, err)
}

// takeAll returns and clears the failures. When a test ends there must be none.
func (f *failureList) takeAll() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.all
	f.all = nil
	return all
}

// newTestServer returns a testServer whose server exports its files as /x.
func newTestServer(t testing.TB, cfg Config, placed bool) *testServer {
	t.Helper()
	g := &testServer{mem: newMemFS(), fakeConn: &fakeConn{t: t, placed: placed, mux: &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}}}
	s, err := nfsserver.New(nfsserver.Config{Exports: []nfsserver.Export{{Path: "/x", FS: g.mem, Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})}}})
	require.NoError(t, err)
	s.Register(g.mux)
	if cfg.Cred == nil {
		cfg.Cred = &rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1000, GID: 100}
	}
	g.c = New(g.fakeConn, cfg)
	g.root, err = NewMount(g.fakeConn, cfg.Cred).Mnt(t.Context(), "/x")
	require.NoError(t, err)
	g.fs, err = g.c.FS(t.Context(), g.root, "")
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.Zero(t, buf.Default.Out(), "unreturned buffers")
		assert.Empty(t, g.lost.takeAll(), "data lost")
	})
	return g
}

// onBoth runs test over both kinds of fakeConn.
func onBoth(t *testing.T, cfg Config, test func(t *testing.T, g *testServer)) {
	t.Helper()
	for _, placed := range []bool{true, false} {
		name := "inline"
		if placed {
			name = "placed"
		}
		t.Run(name, func(t *testing.T) { test(t, newTestServer(t, cfg, placed)) })
	}
}

// putFile creates a file with the given data and returns it.
func (g *testServer) putFile(path string, data []byte) *File {
	g.t.Helper()
	f, err := g.fs.Create(g.t.Context(), path, 0o644)
	require.NoError(g.t, err)
	n, err := f.WriteAt(g.t.Context(), data, 0)
	require.NoError(g.t, err)
	require.Equal(g.t, len(data), n)
	return f
}

// fileContent returns a file's data on the server, and the part on stable
// storage.
func (g *testServer) fileContent(f *File) (data, stable []byte) {
	g.t.Helper()
	a, err := f.Stat(g.t.Context())
	require.NoError(g.t, err)
	g.mem.mu.Lock()
	defer g.mem.mu.Unlock()
	n := g.mem.nodes[a.FileID]
	return n.data, n.stable
}

// sampleData returns n pseudo-random bytes.
func sampleData(n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(p)
	return p
}

// failingCaller returns results of a procedure with the given status.
func failingCaller(proc uint32, status nfs3.Status) []byte {
	switch proc {
	case nfs3.ProcGetAttr:
		return (&nfs3.GetAttrRes{Status: status}).AppendTo(nil)
	case nfs3.ProcSetAttr, nfs3.ProcRemove, nfs3.ProcRmdir:
		return (&nfs3.WccRes{Status: status}).AppendTo(nil)
	case nfs3.ProcLookup:
		return (&nfs3.LookupRes{Status: status}).AppendTo(nil)
	case nfs3.ProcAccess:
		return (&nfs3.AccessRes{Status: status}).AppendTo(nil)
	case nfs3.ProcReadLink:
		return (&nfs3.ReadLinkRes{Status: status}).AppendTo(nil)
	case nfs3.ProcRead:
		return (&nfs3.ReadRes{Status: status}).AppendTo(nil)
	case nfs3.ProcWrite:
		return (&nfs3.WriteRes{Status: status}).AppendTo(nil)
	case nfs3.ProcCreate, nfs3.ProcMkdir, nfs3.ProcSymlink, nfs3.ProcMknod:
		return (&nfs3.MakeRes{Status: status}).AppendTo(nil)
	case nfs3.ProcRename:
		return (&nfs3.RenameRes{Status: status}).AppendTo(nil)
	case nfs3.ProcLink:
		return (&nfs3.LinkRes{Status: status}).AppendTo(nil)
	case nfs3.ProcReadDir, nfs3.ProcReadDirPlus:
		return (&nfs3.DirRes{Status: status}).AppendTo(nil)
	case nfs3.ProcFSStat:
		return (&nfs3.FSStatRes{Status: status}).AppendTo(nil)
	case nfs3.ProcFSInfo:
		return (&nfs3.FSInfoRes{Status: status}).AppendTo(nil)
	case nfs3.ProcPathConf:
		return (&nfs3.PathConfRes{Status: status}).AppendTo(nil)
	case nfs3.ProcCommit:
		return (&nfs3.CommitRes{Status: status}).AppendTo(nil)
	}
	return nil
}

// failProc replies to the next calls to proc, as many as times, with status.
func (w *fakeConn) failProc(proc uint32, status nfs3.Status, times int) {
	w.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if x.Prog != nfs3.Program || x.Proc != proc || times == 0 {
			return nil, nil
		}
		times--
		return failingCaller(proc, status), nil
	}
}
