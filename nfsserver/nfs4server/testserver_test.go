package nfs4server

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/journal"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A testServer is a server, and a client that makes COMPOUNDs.
type testServer struct {
	t     testing.TB
	s     *Server
	log   *bytes.Buffer // of the exports
	peer  *oncrpc.Peer
	conn  *testConn // if not nil, the client's connection
	cred  rpcmsg.Cred
	minor uint32

	session    nfs4.SessionID
	seq        uint32
	cached     uint32 // ca_maxresponsesize_cached of new sessions
	flags      uint32 // for new sessions
	growth     int    // by which replies get longer when they are sealed
	callbacks  uint32 // ca_maxrequestsize of their backchannels; 0: that of calls
	noReclaims bool   // new clients do not end their reclaims: see callable
	tag        string
	journal    *journal.Journal // set by restartServer
	mappable   bool             // replies may have data in mappings of files,
	lent       int              // and so many had
	partial    bool             // a SETATTR that fails may have set attributes
	ahead      *atomic.Int64    // how far the State's clock is ahead, in nanoseconds
}

func newTestServer(t testing.TB, exports ...exportset.Export) *testServer {
	if len(exports) == 0 {
		exports = []exportset.Export{{Path: "/x", FS: mem.New(mem.Options{Size: 1 << 30})}}
	}
	log := new(bytes.Buffer)
	r, err := exportset.New(exportset.Config{Exports: exports, Log: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	start, ahead := time.Now(), new(atomic.Int64)
	now := func() time.Duration { return time.Since(start) + time.Duration(ahead.Load()) }
	state := nfs4state.New(WithFiles(nfs4state.Config{Now: now, Epoch: 7, Lease: 40 * time.Second}))
	return &testServer{
		t: t, ahead: ahead, log: log, s: New(Config{Exports: r, State: state, Lease: 40 * time.Second}), minor: 2, cached: 7584, tag: "tag",
		peer: &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:700"), Network: "tcp"},
		cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1000, GID: 1000},
	}
}

// A step is one operation in a COMPOUND: its arguments and memory for its results.
type step struct {
	op   nfs4.Op
	args nfs4.Message
	res  nfs4.Message
}

var void nfs4.Void

// encodeCompound returns the arguments for a COMPOUND with the steps.
func (g *testServer) encodeCompound(steps ...step) []byte {
	head := nfs4.CompoundArgs{Tag: []byte(g.tag), Minor: g.minor, N: uint32(len(steps))}
	b := head.AppendTo(nil)
	for _, s := range steps {
		b = nfs4.AppendOp(b, s.op, s.args)
		if w, ok := s.args.(*nfs4.WriteArgs); ok {
			b = xdr.AppendFixed(b, w.Data)
		}
	}
	return b
}

// sendCompound sends a COMPOUND with the steps, and returns the whole results.
func (g *testServer) sendCompound(steps ...step) []byte {
	g.t.Helper()
	if g.conn != nil {
		g.conn.sendCompound(g, 1, steps...)
		_, results := g.conn.readReply()
		return results
	}
	b := g.encodeCompound(steps...)
	call := oncrpc.Call{Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: g.cred, Peer: g.peer, Args: xdr.NewReader(b), MaxReply: 1<<20 + 4096, Growth: g.growth}
	rep := oncrpc.Reply{Mappable: g.mappable}
	require.NoError(g.t, g.s.ServeRPC(context.Background(), &call, &rep))
	if rep.Cut != nil {
		g.lent++
	}
	whole := append([]byte(nil), rep.Head...)
	for _, part := range rep.AppendBody(nil) {
		whole = append(whole, part...)
	}
	rep.DropItem()
	return whole
}

// sendRaw sends a COMPOUND with the steps and reads the results. It returns the status, and the
// number of operations that have results.
func (g *testServer) sendRaw(steps ...step) (nfs4.Status, int) {
	g.t.Helper()
	r := xdr.NewReader(g.sendCompound(steps...))
	var res nfs4.CompoundRes
	res.Decode(&r)
	require.NoError(g.t, r.Err())
	assert.Equal(g.t, g.tag, string(res.Tag))
	for i := range res.N {
		op := nfs4.Op(r.Uint32())
		if i == res.N-1 {
			assert.True(g.t, isPermittedIn(g.minor, op, res.Status), "%s may not end with %s", op, res.Status)
		}
		if op == nfs4.OpIllegal && i == res.N-1 {
			assert.Equal(g.t, uint32(res.Status), r.Uint32())
			break
		}
		require.Equal(g.t, steps[i].op, op)
		if i == res.N-1 && res.Status != nfs4.OK && res.Status != nfs4.ErrDenied { // which has results
			require.Equal(g.t, uint32(res.Status), r.Uint32())
			if op == nfs4.OpSetAttr { // its failures have a bitmap too
				words := r.Uint32()
				require.True(g.t, words == 0 || g.partial, "attributes are set")
				r.Fixed(4 * int(words))
			}
			continue
		}
		steps[i].res.Decode(&r)
		require.NoError(g.t, r.Err(), op)
		if d, ok := steps[i].res.(*dirListing); ok {
			d.readEntries(&r)
		}
	}
	require.NoError(g.t, r.Done())
	return res.Status, int(res.N)
}

// A dirListing is READDIR's results with its entries.
type dirListing struct {
	nfs4.ReadDirRes
	names  []string
	attrs  map[string]nfs4.Attrs // by name
	cookie uint64                // the last name's
	eof    bool
}

func (l *dirListing) readEntries(r *xdr.Reader) {
	d := nfs4.DirReader{R: r}
	l.attrs = make(map[string]nfs4.Attrs)
	for e := (nfs4.DirEntry{}); d.Next(&e); {
		l.attrs[string(e.Name)] = e.Attrs
		l.names, l.cookie = append(l.names, string(e.Name)), e.Cookie
	}
	l.eof = d.EOF
}

// connectClient makes a client ID and a session, and ends the client's reclaims.
func (g *testServer) connectClient() *testServer { return g.connectAs("client") }

func (g *testServer) connectAs(owner string) *testServer {
	g.t.Helper()
	g.sessionAs(owner)
	st, _ := g.sendSteps(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, new(nfs4.StatusRes)})
	require.Equal(g.t, nfs4.OK, st)
	return g
}

// sessionAs makes a client ID and a session.
func (g *testServer) sessionAs(owner string) {
	g.t.Helper()
	var id nfs4.ExchangeIDRes
	st, _ := g.sendRaw(step{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte(owner)}, &id})
	require.Equal(g.t, nfs4.OK, st)
	ch := nfs4.ChannelAttrs{MaxRequestSize: 1 << 20, MaxResponseSize: 1 << 20, MaxResponseSizeCached: g.cached, MaxOperations: 16, MaxRequests: 8}
	back := ch
	back.MaxRequestSize = cmp.Or(g.callbacks, ch.MaxRequestSize)
	var cs nfs4.CreateSessionRes
	st, _ = g.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID, Flags: g.flags, Fore: ch, Back: back, CBProgram: 0x40000000, SecParms: nfs4.SecParms{None: true}}, &cs})
	require.Equal(g.t, nfs4.OK, st)
	g.session, g.seq = cs.Session, 0
}

// sendSteps makes a COMPOUND with SEQUENCE in front.
func (g *testServer) sendSteps(steps ...step) (nfs4.Status, int) {
	g.t.Helper()
	g.seq++
	seq := step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq}, new(nfs4.SequenceRes)}
	st, n := g.sendRaw(append([]step{seq}, steps...)...)
	return st, n - 1
}

// newStatusRes is memory for results with a status alone.
func newStatusRes() *nfs4.StatusRes { return new(nfs4.StatusRes) }

// withNewResults returns a step that two goroutines may use at once: each has its own results.
func (s step) withNewResults() step {
	s.res = newStatusRes()
	return s
}

func putRootStep() step { return step{nfs4.OpPutRootFH, &void, newStatusRes()} }

func lookupStep(name string) step {
	return step{nfs4.OpLookup, &nfs4.NameArgs{Name: []byte(name)}, newStatusRes()}
}

// TestSmoke: R8881-12.2.7-1, R8881-16.2.3-1, R8881-18.2.4-1.
func TestSmoke(t *testing.T) {
	g := newTestServer(t).connectClient()
	var attr nfs4.GetAttrRes
	want := nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrFSID, nfs4.AttrFileID, nfs4.AttrSupportedAttrs, nfs4.AttrMountedOnFileID, nfs4.AttrSpaceTotal, nfs4.AttrMaxName)
	st, n := g.sendSteps(putRootStep(), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: want}, &attr})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, 2, n)
	assert.Equal(t, nfs4.FSID{}, attr.Attrs.FSID)
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: want}, &attr})
	require.Equal(t, nfs4.OK, st)
	assert.NotZero(t, attr.Attrs.FSID)
	var fh nfs4.HandleRes
	var opened nfs4.OpenRes
	a := nfs4.OpenArgs{ShareAccess: nfs4.ShareBoth, Owner: nfs4.StateOwner{Owner: []byte("o")}, How: nfs4.Unchecked, Claim: nfs4.ClaimNull, Name: []byte("f")}
	a.Attrs.Mask, a.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o644
	g.cred.UID, g.cred.GID = 0, 0
	st, n = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, &a, &opened}, step{nfs4.OpGetFH, &void, &fh})
	require.Equal(t, nfs4.OK, st, n)
	var wrote nfs4.WriteRes
	object := append([]byte(nil), fh.Object...)
	put := step{nfs4.OpPutFH, &nfs4.HandleArgs{Object: object}, newStatusRes()}
	st, _ = g.sendSteps(put, step{nfs4.OpWrite, &nfs4.WriteArgs{StateID: opened.StateID, Data: []byte("hello")}, &wrote})
	require.Equal(t, nfs4.OK, st)
	assert.EqualValues(t, 5, wrote.Count)
	var read, again nfs4.ReadRes
	id := opened.StateID
	id.SeqID = 0
	st, _ = g.sendSteps(put, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: id, Count: 100}, &read}, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: id, Offset: 1, Count: 2}, &again})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, "hello", string(read.Data))
	assert.True(t, read.EOF)
	assert.Equal(t, "el", string(again.Data))
	var closed nfs4.StateIDRes
	st, _ = g.sendSteps(put, step{nfs4.OpClose, &nfs4.CloseArgs{StateID: opened.StateID}, &closed})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.InvalidStateID, closed.StateID)
	var list dirListing
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: 1000, MaxCount: 4000, Request: want}, &list})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, []string{"f"}, list.names)
	assert.True(t, list.eof)
	var top dirListing
	st, _ = g.sendSteps(putRootStep(), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: 1000, MaxCount: 4000, Request: want}, &top})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, []string{"x"}, top.names)
	st, _ = g.sendSteps(put, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: id, Count: 100}, &read})
	assert.Equal(t, nfs4.ErrBadStateID, st)
	var removed nfs4.ChangeRes
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, &removed})
	assert.Equal(t, nfs4.OK, st)
}
