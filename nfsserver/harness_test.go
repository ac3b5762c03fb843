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

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A message is arguments or results.
type message interface {
	AppendTo(b []byte) []byte
	Decode(r *xdr.Reader)
}

// A rig is a server of one or more file systems, and a client that exchanges
// RPC messages with the server.
type rig struct {
	t      testing.TB
	server *Server
	mux    *oncrpc.Mux
	log    strings.Builder

	// Settings of the next calls.
	peer     *oncrpc.Peer
	uid, gid uint32
	gids     []uint32
	authNone bool
	maxReply int
	apart    bool // send the arguments' item apart
}

// acceptedLen is the length of a reply's header in bytes.
const acceptedLen = 6 * 4

// testKey seals the handles of all rigs.
var testKey = [32]byte{31: 1}

// The parts of a file handle beside a file system's handle, in bytes (package
// realm).
const (
	handleHead = 1 + 4
	sealLen    = 9
)

// Bounds of package realm that tests need, whose tests compare them with the
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

// hosts returns clients for networks, all with the options o.
func hosts(o exports.Options, nets ...string) (list []exports.Client) {
	for _, n := range nets {
		list = append(list, exports.Client{Host: exports.InNetwork(netip.MustParsePrefix(n)), Options: o})
	}
	return list
}

// options gives everyone the options o on the first export.
func options(o exports.Options) func(*Config) {
	return func(c *Config) { c.Exports[0].Clients = exports.Everyone(o) }
}

// newRig serves fs as /x, after applying change.
func newRig(t testing.TB, fs vfs.FS, change ...func(*Config)) *rig {
	t.Helper()
	g := &rig{t: t, uid: 1000, gid: 100, gids: []uint32{100, 200}, maxReply: 1<<20 + 4096}
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

// fh returns the file handle of an object of the memFS that is export number i.
func (g *rig) fh(id uint64, i ...int) nfs3.FH {
	e := g.export(0)
	if len(i) > 0 {
		e = g.export(i[0])
	}
	h := memHandle(id)
	return g.server.realm.AppendHandle(nil, e, &h)
}

// export returns export number i.
func (g *rig) export(i int) *realm.Exported { return g.server.realm.Set().List()[i] }

// idle checks that no call uses an export: once all are removed, all are
// released.
func (g *rig) idle() {
	g.t.Helper()
	before := g.server.Exports()
	list, released := slices.Clone(before), 0
	for i := range list {
		list[i].Released = func() { released++ }
	}
	require.NoError(g.t, g.server.SetExports(list))
	require.NoError(g.t, g.server.SetExports(nil))
	assert.Equal(g.t, len(list), released, "exports that no call uses")
	require.NoError(g.t, g.server.SetExports(before))
}

// permits returns how many permits a peer's calls have for an export, of those
// that a party can have alone: the others are there for the taking.
func permits(t testing.TB, r *realm.Realm, p *oncrpc.Peer, e *realm.Exported) int {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // takes what is there, and waits for nothing
	n := partyPermits
	var take func()
	take = func() {
		_ = r.Visit(ctx, p, e, func() { n--; take() })
	}
	take()
	return n
}

// permits returns how many permits the calls of g's peer have.
func (g *rig) permits() int { return permits(g.t, g.server.realm, g.peer, g.export(0)) }

// header returns an RPC call up to its arguments.
func (g *rig) header(prog, vers, proc uint32) []byte {
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

// serve sends one call message and returns the reply with its item, which is
// released.
func (g *rig) serve(msg, item []byte) (head, replyItem []byte) {
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

// accept returns accept_stat and the results.
func (g *rig) accept(head []byte) (stat uint32, results []byte) {
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

// call makes one NFS call and decodes its results into res.
func (g *rig) call(proc uint32, args, res message) {
	g.t.Helper()
	msg := args.AppendTo(g.header(nfs3.Program, nfs3.Version, proc))
	item := itemOf(args)
	if !g.apart || item == nil {
		msg, item = xdr.AppendFixed(msg, item), nil
	}
	head, replyItem := g.serve(msg, item)
	stat, results := g.accept(head)
	require.Zero(g.t, stat, "accept_stat of %s", nfs3.ProcName(proc))
	g.decode(results, replyItem, res)
}

func (g *rig) decode(results, item []byte, res message) {
	g.t.Helper()
	clearResults(res)
	r := xdr.NewReader(results)
	if item != nil {
		r.SetItem(len(results), item)
	}
	res.Decode(&r)
	require.NoError(g.t, r.Done(), "%T", res)
}

// itemOf returns the data item of arguments, or nil.
func itemOf(m message) []byte {
	switch m := m.(type) {
	case *nfs3.WriteArgs:
		return m.Data
	case *nfs3.SymlinkArgs:
		return m.Path
	}
	return nil
}

// statusOfResults returns the status of res.
func statusOfResults(res message) nfs3.Status {
	return reflect.ValueOf(res).Elem().FieldByName("Status").Interface().(nfs3.Status)
}

// in makes a DirOpArgs.
func in(dir nfs3.FH, name string) nfs3.DirOpArgs {
	return nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}
}

// put makes a file in the root of g's file system and returns its handle.
func (g *rig) put(name string, data []byte) nfs3.FH {
	g.t.Helper()
	var made nfs3.MakeRes
	g.call(nfs3.ProcCreate, &nfs3.CreateArgs{Where: in(g.fh(memRoot), name)}, &made)
	require.Equal(g.t, nfs3.OK, made.Status)
	fh := append(nfs3.FH{}, made.Object...)
	if len(data) > 0 {
		var res nfs3.WriteRes
		g.call(nfs3.ProcWrite, &nfs3.WriteArgs{File: fh, Data: data}, &res)
		require.Equal(g.t, nfs3.OK, res.Status)
		require.EqualValues(g.t, len(data), res.Count)
	}
	return fh
}

// mkdir makes a directory in the root and returns its handle.
func (g *rig) mkdir(name string) nfs3.FH {
	g.t.Helper()
	var made nfs3.MakeRes
	g.call(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: in(g.fh(memRoot), name)}, &made)
	require.Equal(g.t, nfs3.OK, made.Status)
	return append(nfs3.FH{}, made.Object...)
}

// clearResults empties res for the next reply.
func clearResults(res message) {
	if l, ok := res.(*listing); ok {
		*l = listing{plus: l.plus}
		return
	}
	reflect.ValueOf(res).Elem().SetZero()
}
