package rpcsec

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

const (
	testProg = 0x20000001 // from the range for local use
	testVers = 2

	procEcho = 1 // echoes an opaque as the reply's data item, followed by a word
	procHead = 2 // echoes an opaque in the reply's head
	procMake = 3 // counts; must not be executed twice
	procMore = 4 // echoes an opaque as two data items
	procDeny = 5 // is denied
)

var echoTail = []byte{0xde, 0xad, 0xbe, 0xef}

// A testProgram is the test program.
type testProgram struct {
	executed atomic.Uint32
	seen     rpcmsg.Cred // from the last call
	mappable bool
	maxReply int                               // MaxReply of the last call
	growth   int                               // its Growth
	made     atomic.Pointer[func(data []byte)] // called by procMake, if not nil
}

func (p *testProgram) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	data := c.Args.Item(c.MaxReply)
	if err := c.Args.Done(); err != nil {
		return err
	}
	n := p.executed.Add(1)
	if made := p.made.Load(); c.Proc == procMake && made != nil {
		(*made)(data)
	} else {
		p.seen, p.mappable, p.maxReply, p.growth = c.Cred, r.Mappable, c.MaxReply, c.Growth
	}
	switch c.Proc {
	case procEcho:
		copy(r.NewItem(len(data)), data)
		r.Head = xdr.AppendUint32(r.Head, uint32(len(data)))
		r.Tail = echoTail
	case procHead:
		r.Reserve(len(data) + 8)
		r.Head = xdr.AppendOpaque(r.Head, data)
	case procMake:
		r.Head = xdr.AppendUint32(r.Head, n)
	case procMore:
		copy(r.NewItem(len(data)), data)
		r.Head = xdr.AppendUint32(r.Head, uint32(len(data)))
		r.Tail = xdr.AppendUint32(nil, uint32(len(data)))
		p, ok := r.AddItem(len(data))
		if !ok {
			return fmt.Errorf("no memory")
		}
		copy(p, data)
		r.More[0].Tail = echoTail
	case procDeny:
		return rpcmsg.AuthTooWeak
	default:
		return oncrpc.ErrProcUnavail
	}
	return nil
}

// A testServer is a Server in front of a replay cache and the test program.
type testServer struct {
	*Server
	t        testing.TB
	acceptor fakeAcceptor
	program  testProgram
	cut      atomic.Int32 // connections
	peer     oncrpc.Peer
}

func mapUser(_ context.Context, _ netip.Addr, p gss.Principal) (User, bool, error) {
	switch p.Name[0] {
	case "alice":
		return User{UID: 1001, GID: 100, GIDs: []uint32{7, 8}}, true, nil
	case "broken":
		return User{}, false, errFake
	}
	return User{}, false, nil
}

func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newTestServer(t testing.TB, cfg ServerConfig) *testServer {
	r := &testServer{t: t}
	mux := &oncrpc.Mux{Log: discardLogger()}
	mux.Register(testProg, testVers, &r.program)
	cache := replay.New(mux, replay.Config{Keep: func(p rpcmsg.Procedure, _ []byte) bool { return p.Proc == procMake }})
	t.Cleanup(cache.Close)
	cfg.Acceptor, cfg.Map, cfg.Log = &r.acceptor, mapUser, discardLogger()
	r.Server = NewServer(cache, cfg)
	r.peer = oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:700"), Network: "tcp", Cut: func(error) { r.cut.Add(1) }}
	out := buf.Default.Out()
	t.Cleanup(func() { assert.Equal(t, out, buf.Default.Out(), "buffers lent") })
	return r
}

// sendMessage serves a message, and returns the reply, or nil if there is none.
func (r *testServer) sendMessage(msg []byte) []byte {
	return r.serveRequest(&oncrpc.Request{Msg: msg, Peer: &r.peer, MaxReply: 1 << 20, MaxWhole: 1 << 20})
}

func (r *testServer) serveRequest(req *oncrpc.Request) []byte {
	rep := oncrpc.Reply{Mappable: true}
	if !r.Serve(r.t.Context(), req, &rep) {
		assert.Zero(r.t, rep.Len())
		return nil
	}
	b := append([]byte(nil), rep.Head...)
	for _, part := range rep.AppendBody(nil) {
		b = append(b, part...)
	}
	rep.DropItem()
	return b
}

func appendWords(vs ...uint32) (b []byte) {
	for _, v := range vs {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// initCall returns a creation call.
func initCall(xid uint32, token string) []byte {
	b := appendWords(xid, 0, 2, testProg, testVers, 0, 6, 20, 1, 1, 0, 0, 0, 0, 0)
	return xdr.AppendOpaque(b, []byte(token))
}

// A testUser is the client's end of a context. It builds its calls by hand.
type testUser struct {
	r      *testServer
	ctx    *fakeContext
	server *fakeContext
	handle []byte
	seq    uint32
}

// establishContext makes a context.
func (r *testServer) establishContext(token string) *testUser {
	r.t.Helper()
	res := r.sendMessage(initCall(1, token))
	u, major := readInit(r.t, res, token)
	require.Equal(r.t, gss.Complete, major)
	u.r, u.server = r, r.acceptor.contexts[len(r.acceptor.contexts)-1]
	return u
}

// readInit reads the reply to a creation call.
func readInit(t testing.TB, reply []byte, token string) (*testUser, gss.Major) {
	t.Helper()
	u := &testUser{ctx: newFakeContext(fakeKey(token), false, time.Time{})}
	x := xdr.NewReader(reply)
	require.Equal(t, []uint32{1, 1, 0}, []uint32{x.Uint32(), x.Uint32(), x.Uint32()})
	flavor, mic := x.Uint32(), x.Opaque(400)
	require.Zero(t, x.Uint32(), "SUCCESS")
	u.handle = append([]byte(nil), x.Opaque(400)...)
	major := gss.Major(x.Uint32())
	x.Uint32() // minor
	n := x.Uint32()
	answer := string(x.Opaque(1 << 20))
	require.NoError(t, x.Done())
	if major != gss.Complete {
		assert.Equal(t, rpcmsg.AuthNone, flavor, "R2203-5.2.3.1-3")
		assert.Empty(t, mic)
		assert.Empty(t, u.handle, "R2203-5.2.3.1-2")
		assert.Empty(t, answer, "R2203-5.2.3.1-2")
		return nil, major
	}
	require.Equal(t, rpcmsg.AuthGSS, flavor)
	require.Len(t, u.handle, 16)
	require.EqualValues(t, 2048, n)
	require.NoError(t, u.ctx.VerifyMIC(mic, [][]byte{appendWords(n)}), "R2203-5.2.3.1-3")
	require.Equal(t, "yes "+token, answer)
	return u, major
}

// newHeader returns a call's header with a credential, and a verifier.
func (u *testUser) newHeader(xid, proc, gssProc, seq, service uint32) []byte {
	b := appendWords(xid, 0, 2, testProg, testVers, proc, 6, uint32(20+len(u.handle)), 1, gssProc, seq, service)
	b = xdr.AppendOpaque(b, u.handle)
	mic, _ := u.ctx.AppendMIC(nil, [][]byte{b})
	return xdr.AppendOpaque(append(b, appendWords(6)...), mic)
}

// newBody returns protected arguments.
func (u *testUser) newBody(seq, service uint32, args []byte) []byte {
	plain := append(appendWords(seq), args...)
	switch service {
	case serviceNone:
		return args
	case serviceIntegrity:
		mic, _ := u.ctx.AppendMIC(nil, [][]byte{plain})
		return xdr.AppendOpaque(xdr.AppendOpaque(nil, plain), mic)
	}
	before, after := make([]byte, fakeBefore), make([]byte, fakeAfter)
	_ = u.ctx.Wrap(before, [][]byte{plain}, after)
	return xdr.AppendOpaque(nil, append(append(before, plain...), after...))
}

// newCall returns the next call.
func (u *testUser) newCall(xid, proc, service uint32, args []byte) []byte {
	u.seq++
	return append(u.newHeader(xid, proc, procData, u.seq, service), u.newBody(u.seq, service, args)...)
}

// checkReply checks the reply to the call with a sequence number, and returns the
// accept_stat, and what follows it.
func (u *testUser) checkReply(reply []byte, xid, seq, service uint32) (stat uint32, results []byte) {
	t := u.r.t
	t.Helper()
	x := xdr.NewReader(reply)
	require.Equal(t, []uint32{xid, 1, 0}, []uint32{x.Uint32(), x.Uint32(), x.Uint32()})
	require.Equal(t, rpcmsg.AuthGSS, x.Uint32(), "R2203-5.3.3.2-1")
	require.NoError(t, u.ctx.VerifyMIC(x.Opaque(400), [][]byte{appendWords(seq)}), "R2203-5.3.3.2-1")
	stat = x.Uint32()
	if stat != rpcmsg.Success || service == serviceNone {
		return stat, x.Rest()
	}
	plain := x.Opaque(1 << 30)
	if service == serviceIntegrity {
		require.NoError(t, u.ctx.VerifyMIC(x.Opaque(400), [][]byte{plain}))
	} else {
		message, err := u.ctx.Unwrap([][]byte{plain})
		require.NoError(t, err)
		plain = message[0]
	}
	require.NoError(t, x.Done())
	require.Equal(t, appendWords(seq), plain[:4], "R2203-5.3.3.2-3")
	return stat, plain[4:]
}

// authStat returns the auth_stat of a reply, 0 without one.
func authStat(reply []byte) rpcmsg.AuthError {
	if len(reply) != 20 || binary.BigEndian.Uint32(reply[8:]) != rpcmsg.MsgDenied || binary.BigEndian.Uint32(reply[12:]) != rpcmsg.DeniedAuth {
		return 0
	}
	return rpcmsg.AuthError(binary.BigEndian.Uint32(reply[16:]))
}

// opaqueArgs returns the arguments of the test program.
func opaqueArgs(data []byte) []byte { return xdr.AppendOpaque(nil, data) }
