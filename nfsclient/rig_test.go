package nfsclient

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A wire is a connection to a server in the same process.
type wire struct {
	t      testing.TB
	mux    *oncrpc.Mux
	placed bool // items travel apart, as over RDMA; otherwise inline, as over TCP

	// before may answer a call instead of the server, with results or an error.
	// after may replace the server's results. Both may inspect the call and
	// wait.
	before func(ctx context.Context, x *oncrpc.Exchange) (results []byte, err error)
	after  func(x *oncrpc.Exchange, results []byte) []byte

	mu    sync.Mutex
	xid   uint32
	count [nfs3.NumProc]int // NFS calls that reached the server
	under int               // calls under way,
	most  int               // and their maximum
}

func (w *wire) begin() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.xid++
	w.under++
	w.most = max(w.most, w.under)
	return w.xid
}

func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.under--
}

// Call implements oncrpc.Caller.
func (w *wire) Call(ctx context.Context, x *oncrpc.Exchange) error {
	xid := w.begin()
	defer w.end()
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
			return w.answer(x, results)
		}
	}
	return w.serve(ctx, xid, x)
}

// checkItems checks that only eligible items travel apart: R8267-4-1,
// R8267-4-2.
func (w *wire) checkItems(x *oncrpc.Exchange) {
	if x.Prog == nfs3.Program {
		arg, result := nfs3.DDPEligible(x.Proc)
		assert.True(w.t, arg || x.Item == nil, nfs3.ProcName(x.Proc))
		assert.True(w.t, result || x.Sink == nil, nfs3.ProcName(x.Proc))
	}
	assert.Nil(w.t, x.Tail)
}

// answer sets the results of a call.
func (w *wire) answer(x *oncrpc.Exchange, results []byte) error {
	x.Lent = buf.Default.Get(len(results))
	copy(x.Lent.B, results)
	x.Results = xdr.NewReader(x.Lent.B)
	return nil
}

func (w *wire) serve(ctx context.Context, xid uint32, x *oncrpc.Exchange) error {
	if x.Prog == nfs3.Program {
		w.mu.Lock()
		w.count[x.Proc]++
		w.mu.Unlock()
	}
	// R8267-3-2, R8267-4.1-1: the client provides enough room, and the server
	// gets exactly that room.
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
	if err := w.answer(x, results); err != nil {
		return err
	}
	if w.placed && len(x.Sink) > 0 {
		x.Results.SetMoved(x.Sink[:copy(x.Sink, item)])
	}
	return nil
}

// calls returns how many calls of a procedure reached the server.
func (w *wire) calls(proc uint32) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count[proc]
}

// A rig is a client and a server with a file system.
type rig struct {
	*wire
	mem  *memFS
	c    *Client
	root nfs3.FH
	fs   *FS
	lost failures
}

// failures collects the errors that WriteBehinds reported for lost data.
type failures struct {
	mu  sync.Mutex
	all []error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, err)
}

// take returns the failures not yet taken. At the end of a test there must be
// none.
func (f *failures) take() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.all
	f.all = nil
	return all
}

// newRig returns a rig whose server exports its files as /x.
func newRig(t testing.TB, cfg Config, placed bool) *rig {
	t.Helper()
	g := &rig{mem: newMemFS(), wire: &wire{t: t, placed: placed, mux: &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}}}
	s, err := nfsserver.New(nfsserver.Config{Exports: []nfsserver.Export{{Path: "/x", FS: g.mem, Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})}}})
	require.NoError(t, err)
	s.Register(g.mux)
	if cfg.Cred == nil {
		cfg.Cred = &rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1000, GID: 100}
	}
	g.c = New(g.wire, cfg)
	g.root, err = NewMount(g.wire, cfg.Cred).Mnt(t.Context(), "/x")
	require.NoError(t, err)
	g.fs, err = g.c.FS(t.Context(), g.root, "")
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.Zero(t, buf.Default.Out(), "unreturned buffers")
		assert.Empty(t, g.lost.take(), "data lost")
	})
	return g
}

// onBoth runs test over both kinds of wire.
func onBoth(t *testing.T, cfg Config, test func(t *testing.T, g *rig)) {
	t.Helper()
	for _, placed := range []bool{true, false} {
		name := "inline"
		if placed {
			name = "placed"
		}
		t.Run(name, func(t *testing.T) { test(t, newRig(t, cfg, placed)) })
	}
}

// put creates a file with the given data and returns it.
func (g *rig) put(path string, data []byte) *File {
	g.t.Helper()
	f, err := g.fs.Create(g.t.Context(), path, 0o644)
	require.NoError(g.t, err)
	n, err := f.WriteAt(g.t.Context(), data, 0)
	require.NoError(g.t, err)
	require.Equal(g.t, len(data), n)
	return f
}

// content returns the server's data of a file, and the part on stable storage.
func (g *rig) content(f *File) (data, stable []byte) {
	g.t.Helper()
	a, err := f.Stat(g.t.Context())
	require.NoError(g.t, err)
	g.mem.mu.Lock()
	defer g.mem.mu.Unlock()
	n := g.mem.nodes[a.FileID]
	return n.data, n.stable
}

// sample returns n pseudo-random bytes.
func sample(n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(p)
	return p
}

// failing returns results of a procedure with the given status.
func failing(proc uint32, status nfs3.Status) []byte {
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

// refuse answers the next calls of proc with status, as many as times.
func (w *wire) refuse(proc uint32, status nfs3.Status, times int) {
	w.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if x.Prog != nfs3.Program || x.Proc != proc || times == 0 {
			return nil, nil
		}
		times--
		return failing(proc, status), nil
	}
}
