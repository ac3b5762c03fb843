package nfsserver

import (
	"context"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A message is arguments or results.
type message interface {
	AppendTo(b []byte) []byte
	Decode(r *xdr.Reader)
}

// A testServer is a server with one or more file systems, and a client that exchanges RPC
// messages with the server.
type testServer struct {
	t      testing.TB
	server *Server
	mux    *oncrpc.Mux
	log    strings.Builder

	// Settings for the next calls.
	peer     *oncrpc.Peer
	uid, gid uint32
	gids     []uint32
	authNone bool
	maxReply int
	apart    bool // send the arguments' item apart
}

// acceptedLen is a reply header's length in bytes.
const acceptedLen = 6 * 4

// testKey seals the handles of all test servers.
var testKey = [32]byte{31: 1}

// The parts of a file handle besides the file system's handle, in bytes (package exportset).
const (
	handleHead = 1 + 4
	sealLen    = 9
)

// Limits in package exportset that tests need, whose own tests compare them with the
// documentation.
const (
	maxWorking   = 1024
	partyPermits = maxWorking / 4
	maxWaiting   = 128
	fewHung      = 8
	stuckTime    = 5 * time.Second
	namesTime    = 5 * time.Second
	verdictTime  = time.Minute
)

// clientsOf returns clients for networks, all with the options o.
func clientsOf(o exports.Options, nets ...string) (list []exports.Client) {
	for _, n := range nets {
		list = append(list, exports.Client{Host: exports.NetworkHost(netip.MustParsePrefix(n)), Options: o})
	}
	return list
}

// withOptions gives everyone the options o on the first export.
func withOptions(o exports.Options) func(*Config) {
	return func(c *Config) { c.Exports[0].Clients = exports.Everyone(o) }
}

// newTestServer serves fs as /x, after applying change.
func newTestServer(t testing.TB, fs vfs.FS, change ...func(*Config)) *testServer {
	t.Helper()
	g := &testServer{t: t, uid: 1000, gid: 100, gids: []uint32{100, 200}, maxReply: 1<<20 + 4096}
	g.mux = &oncrpc.Mux{Log: slog.New(slog.NewTextHandler(&g.log, nil))}
	g.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:700"), Network: "tcp"}
	c := Config{Key: testKey, Exports: []Export{{Path: "/x", FS: fs}}, Log: slog.New(slog.NewTextHandler(&g.log, nil))}
	for _, f := range change {
		f(&c)
	}
	var err error
	g.server, err = New(c)
	require.NoError(t, err)
	g.server.Register(g.mux)
	t.Cleanup(func() { assert.Zero(t, buf.Default.Out(), "unreturned buffers") })
	return g
}

// handleOf returns an object's file handle in the memFS that is export number i.
func (g *testServer) handleOf(id uint64, i ...int) nfs3.FH {
	e := g.exportAt(0)
	if len(i) > 0 {
		e = g.exportAt(i[0])
	}
	h := memHandle(id)
	return g.server.exports.AppendHandle(nil, e, &h)
}

// exportAt returns export number i.
func (g *testServer) exportAt(i int) *exportset.Exported {
	return g.server.exports.Snapshot().List()[i]
}

// checkIdle checks that no call uses an export: once all are removed, all are
// released.
func (g *testServer) checkIdle() {
	g.t.Helper()
	before := g.server.Exports()
	list, released := slices.Clone(before), 0
	for i := range list {
		list[i].Released = func() { released++ }
	}
	require.NoError(g.t, g.server.exports.SetExports(list))
	require.NoError(g.t, g.server.exports.SetExports(nil))
	assert.Equal(g.t, len(list), released, "exports that no call uses")
	require.NoError(g.t, g.server.exports.SetExports(before))
}

// countPermits returns the number of permits that a peer's calls have for an export, among
// those that one client group can have: the others are available.
func countPermits(t testing.TB, r *exportset.Set, p *oncrpc.Peer, e *exportset.Exported) int {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // takes what is there, and waits for nothing
	n := partyPermits
	var take func()
	take = func() {
		_ = r.RunWithPermit(ctx, p, e, func() { n--; take() })
	}
	take()
	return n
}

// countPermits returns the number of permits that calls from g's peer have.
func (g *testServer) countPermits() int {
	return countPermits(g.t, g.server.exports, g.peer, g.exportAt(0))
}

// callHeader returns an RPC call up to its arguments.
func (g *testServer) callHeader(prog, vers, proc uint32) []byte {
	var b []byte
	for _, v := range []uint32{0x7e57, 0, 2, prog, vers, proc} {
		b = xdr.AppendUint32(b, v)
	}
	if g.authNone {
		b = xdr.AppendUint64(b, 0)
	} else {
		var c []byte
		for _, v := range []uint32{0, 0, g.uid, g.gid, uint32(len(g.gids))} { // stamp, machine's name
			c = xdr.AppendUint32(c, v)
		}
		for _, v := range g.gids {
			c = xdr.AppendUint32(c, v)
		}
		b = xdr.AppendOpaque(xdr.AppendUint32(b, rpcmsg.AuthSys), c)
	}
	return xdr.AppendUint64(b, 0) // verifier
}

// serveCall sends one call message and returns the reply with its item, which is
// released.
func (g *testServer) serveCall(msg, item []byte) (head, replyItem []byte) {
	g.t.Helper()
	req := oncrpc.Request{Msg: msg, Item: item, ItemPos: len(msg), Peer: g.peer, MaxReply: g.maxReply}
	held := 4 << 10 // transports do not count this much
	rep := oncrpc.Reply{Hold: func(n int) { held = max(held, n) }}
	require.True(g.t, g.mux.Serve(g.t.Context(), &req, &rep))
	require.Empty(g.t, rep.Tail)
	assert.LessOrEqual(g.t, len(rep.Head)-acceptedLen, held, "results are counted")
	assert.LessOrEqual(g.t, rep.Len(), max(g.maxReply, 32))
	if rep.Item != nil {
		replyItem = append([]byte{}, rep.Item.B...)
		rep.DropItem()
	}
	return rep.Head, replyItem
}

// parseAccepted returns accept_stat and the results.
func (g *testServer) parseAccepted(head []byte) (stat uint32, results []byte) {
	g.t.Helper()
	r := xdr.NewReader(head)
	assert.EqualValues(g.t, 0x7e57, r.Uint32(), "xid")
	assert.EqualValues(g.t, 1, r.Uint32(), "a reply")
	assert.EqualValues(g.t, 0, r.Uint32(), "accepted")
	assert.Zero(g.t, r.Uint64(), "verifier")
	stat = r.Uint32()
	require.NoError(g.t, r.Err())
	return stat, head[r.Offset():]
}

// callNFS makes one NFS call and decodes its results into res.
func (g *testServer) callNFS(proc uint32, args, res message) {
	g.t.Helper()
	msg := args.AppendTo(g.callHeader(nfs3.Program, nfs3.Version, proc))
	item := dataItem(args)
	if !g.apart || item == nil {
		msg, item = xdr.AppendFixed(msg, item), nil
	}
	head, replyItem := g.serveCall(msg, item)
	stat, results := g.parseAccepted(head)
	require.Zero(g.t, stat, "accept_stat of %s", nfs3.ProcName(proc))
	g.decodeResults(results, replyItem, res)
}

func (g *testServer) decodeResults(results, item []byte, res message) {
	g.t.Helper()
	clearResults(res)
	r := xdr.NewReader(results)
	if item != nil {
		r.SetItem(len(results), item)
	}
	res.Decode(&r)
	require.NoError(g.t, r.Done(), "%T", res)
}

// dataItem returns the data item in arguments, or nil.
func dataItem(m message) []byte {
	switch m := m.(type) {
	case *nfs3.WriteArgs:
		return m.Data
	case *nfs3.SymlinkArgs:
		return m.Path
	}
	return nil
}

// resultStatus returns res's status.
func resultStatus(res message) nfs3.Status {
	return reflect.ValueOf(res).Elem().FieldByName("Status").Interface().(nfs3.Status)
}

// dirOpArgs makes a DirOpArgs.
func dirOpArgs(dir nfs3.FH, name string) nfs3.DirOpArgs {
	return nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}
}

// makeFile makes a file in the root of g's file system and returns its handle.
func (g *testServer) makeFile(name string, data []byte) nfs3.FH {
	g.t.Helper()
	var made nfs3.MakeRes
	g.callNFS(nfs3.ProcCreate, &nfs3.CreateArgs{Where: dirOpArgs(g.handleOf(memRoot), name)}, &made)
	require.Equal(g.t, nfs3.OK, made.Status)
	fh := append(nfs3.FH{}, made.Object...)
	if len(data) > 0 {
		var res nfs3.WriteRes
		g.callNFS(nfs3.ProcWrite, &nfs3.WriteArgs{File: fh, Data: data}, &res)
		require.Equal(g.t, nfs3.OK, res.Status)
		require.EqualValues(g.t, len(data), res.Count)
	}
	return fh
}

// makeDir makes a directory in the root and returns its handle.
func (g *testServer) makeDir(name string) nfs3.FH {
	g.t.Helper()
	var made nfs3.MakeRes
	g.callNFS(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: dirOpArgs(g.handleOf(memRoot), name)}, &made)
	require.Equal(g.t, nfs3.OK, made.Status)
	return append(nfs3.FH{}, made.Object...)
}

// clearResults empties res for the next reply.
func clearResults(res message) {
	if l, ok := res.(*dirListing); ok {
		*l = dirListing{plus: l.plus}
		return
	}
	reflect.ValueOf(res).Elem().SetZero()
}
