package oncrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serveRequest returns the reply to msg, or nil if there is none.
func serveRequest(t *testing.T, m *Mux, req *Request) []byte {
	t.Helper()
	t.Cleanup(func() { assert.Zero(t, buf.Default.Out()) })
	if req.MaxReply == 0 {
		req.MaxReply = 4096
	}
	var rep Reply
	if !m.Serve(t.Context(), req, &rep) {
		assert.Zero(t, rep.Len())
		assert.Nil(t, rep.Item)
		return nil
	}
	assert.Equal(t, rep.Len(), len(rep.Head)+len(rep.Tail)+itemLen(&rep))
	return bytesOf(&rep)
}

func itemLen(r *Reply) int {
	if r.Item == nil {
		return 0
	}
	return len(xdr.AppendFixed(nil, r.Item.B))
}

func TestMuxDispatch(t *testing.T) {
	m := echoMux()
	data := []byte("hello")
	const xid = 7
	withFlavor := func(msg []byte, flavor uint32) []byte {
		binary.BigEndian.PutUint32(msg[24:], flavor)
		return msg
	}
	for _, tt := range []struct {
		name string
		msg  []byte
		want []byte
	}{
		{"version 2", newCallMessage(xid, testProg, 2, procHead, xdr.AppendOpaque(nil, data)...), echoReply(xid, procHead, data)},
		{"version 4", newCallMessage(xid, testProg, 4, procEcho, xdr.AppendOpaque(nil, data)...), echoReply(xid, procEcho, data)},
		{"unknown program", newCallMessage(xid, nfs, 2, procHead), rpcmsg.AppendAccepted(nil, xid, rpcmsg.ProgUnavail)},
		{"unknown program, NULL", newCallMessage(xid, nfs, 2, 0), rpcmsg.AppendAccepted(nil, xid, rpcmsg.ProgUnavail)},
		{"version below", newCallMessage(xid, testProg, 1, 0), rpcmsg.AppendProgMismatch(nil, xid, 2, 4)},
		{"version between", newCallMessage(xid, testProg, 3, procHead), rpcmsg.AppendProgMismatch(nil, xid, 2, 4)},
		{"version above", newCallMessage(xid, testProg, 1<<32-1, procHead), rpcmsg.AppendProgMismatch(nil, xid, 2, 4)},
		{"NULL", newCallMessage(xid, testProg, 2, 0), rpcmsg.AppendAccepted(nil, xid, rpcmsg.Success)},
		{"NULL, broken AUTH_SYS", withFlavor(newCallMessage(xid, testProg, 2, 0), rpcmsg.AuthSys), rpcmsg.AppendAccepted(nil, xid, rpcmsg.Success)},
		{"NULL, RPCSEC_GSS", withFlavor(newCallMessage(xid, testProg, 2, 0), 6), rpcmsg.AppendAuthError(nil, xid, rpcmsg.AuthBadCred)},
		{"NULL, AUTH_TLS", withFlavor(newCallMessage(xid, testProg, 2, 0), 7), rpcmsg.AppendAuthError(nil, xid, rpcmsg.AuthBadCred)},
		{"broken AUTH_SYS", withFlavor(newCallMessage(xid, testProg, 2, procHead), rpcmsg.AuthSys), rpcmsg.AppendAuthError(nil, xid, rpcmsg.AuthBadCred)},
		{"AUTH_SHORT", withFlavor(newCallMessage(xid, testProg, 2, procHead), 2), rpcmsg.AppendAuthError(nil, xid, rpcmsg.AuthRejectedCred)},
		{"unknown procedure", newCallMessage(xid, testProg, 2, 99, 0, 0, 0, 0), rpcmsg.AppendAccepted(nil, xid, rpcmsg.ProcUnavail)},
		{"arguments missing", newCallMessage(xid, testProg, 2, procHead), rpcmsg.AppendAccepted(nil, xid, rpcmsg.GarbageArgs)},
		{"arguments too long", newCallMessage(xid, testProg, 2, procHead, 0, 0, 0, 0, 0, 0, 0, 0), rpcmsg.AppendAccepted(nil, xid, rpcmsg.GarbageArgs)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, serveRequest(t, m, &Request{Msg: tt.msg}))
		})
	}
}

// TestMuxNullWithItem checks that a call without arguments is refused if it has
// items apart from the message (RFC 8166, Section 6.1).
func TestMuxNullWithItem(t *testing.T) {
	for _, req := range []*Request{
		{Item: []byte("item"), ItemPos: 40},
		{Places: []xdr.Place{{Pos: 40, Len: 4}, {Pos: 44, Len: 4}}},
	} {
		req.Msg = newCallMessage(7, testProg, 2, 0)
		assert.Equal(t, rpcmsg.AppendAccepted(nil, 7, rpcmsg.GarbageArgs), serveRequest(t, echoMux(), req))
	}
}

func TestMuxGoldenAnswers(t *testing.T) {
	m := new(Mux)
	null := wiretest.Hex(t, "testdata/null-call.hex")
	m.Register(nfs, 3, handlerFunc(nil)) // the mux answers NULL itself
	assert.Equal(t, wiretest.Hex(t, "testdata/null-reply.hex"), serveRequest(t, m, &Request{Msg: null}))
	null[11] = 3
	assert.Equal(t, wiretest.Hex(t, "testdata/rpc-mismatch.hex"), serveRequest(t, m, &Request{Msg: null}))
	assert.Nil(t, serveRequest(t, m, &Request{Msg: wiretest.Hex(t, "testdata/null-reply.hex")}))
}

func TestMuxCutAtEveryByte(t *testing.T) {
	m := echoMux()
	wire := echoCall(9, procEcho, []byte("hello"))
	for n := range wire {
		got := serveRequest(t, m, &Request{Msg: wire[:n]})
		if n < 12 {
			assert.Nil(t, got, n)
			continue
		}
		assert.Equal(t, rpcmsg.AppendAccepted(nil, 9, rpcmsg.GarbageArgs), got, n)
	}
}

// TestMuxCall checks the Call that a handler gets if the transport carried the
// item apart.
func TestMuxCall(t *testing.T) {
	item := make([]byte, 262144)
	peer := &Peer{Addr: netip.MustParseAddrPort("10.0.2.15:1023"), Network: "rdma"}
	req := &Request{
		Msg:  wiretest.Hex(t, "testdata/write-call.hex"),
		Item: item, ItemPos: 108, Peer: peer, MaxReply: 1000,
	}
	seen := false
	var m Mux
	m.Register(nfs, 3, handlerFunc(func(ctx context.Context, c *Call, _ *Reply) error {
		seen = true
		assert.Equal(t, t.Context(), ctx)
		assert.EqualValues(t, 0x0985739a, c.XID)
		assert.Equal(t, []uint32{nfs, 3, 7}, []uint32{c.Prog, c.Vers, c.Proc})
		assert.Same(t, peer, c.Peer)
		assert.Equal(t, 1000-24, c.MaxReply)
		assert.Equal(t, rpcmsg.Cred{Flavor: rpcmsg.AuthSys, GIDs: []uint32{}}, c.Cred)
		assert.Len(t, c.Args.Opaque(64), 20)
		c.Args.Fixed(16)
		data := c.Args.Item(1 << 20)
		if err := c.Args.Done(); err != nil {
			return err
		}
		assert.Same(t, &item[0], &data[0])
		return nil
	}))
	serveRequest(t, &m, req)
	assert.True(t, seen)
	assert.Equal(t, "rdma 10.0.2.15:1023", peer.String())

	for _, pos := range []int{0, 4, 24, 60, 104, 112} { // in the header, or at a position without an item
		req.ItemPos = pos
		if got := serveRequest(t, &m, req); got != nil {
			assert.Equal(t, rpcmsg.AppendAccepted(nil, 0x0985739a, rpcmsg.GarbageArgs), got, pos)
		}
	}
}

func TestMuxHandlerErrors(t *testing.T) {
	for _, tt := range []struct {
		err    error
		want   []byte
		logged bool
	}{
		{ErrProcUnavail, rpcmsg.AppendAccepted(nil, 1, rpcmsg.ProcUnavail), false},
		{ErrGarbageArgs, rpcmsg.AppendAccepted(nil, 1, rpcmsg.GarbageArgs), false},
		{fmt.Errorf("name: %w", xdr.ErrLong), rpcmsg.AppendAccepted(nil, 1, rpcmsg.GarbageArgs), false},
		{xdr.ErrShort, rpcmsg.AppendAccepted(nil, 1, rpcmsg.GarbageArgs), false},
		{xdr.ErrValue, rpcmsg.AppendAccepted(nil, 1, rpcmsg.GarbageArgs), false},
		{xdr.ErrTrailing, rpcmsg.AppendAccepted(nil, 1, rpcmsg.GarbageArgs), false},
		{xdr.ErrItem, rpcmsg.AppendAccepted(nil, 1, rpcmsg.GarbageArgs), false},
		{rpcmsg.AuthTooWeak, rpcmsg.AppendAuthError(nil, 1, rpcmsg.AuthTooWeak), false},
		{fmt.Errorf("export: %w", rpcmsg.AuthRejectedCred), rpcmsg.AppendAuthError(nil, 1, rpcmsg.AuthRejectedCred), false},
		{fmt.Errorf("broadcast: %w", ErrNoAnswer), nil, false},
		{errors.New("disk on fire"), rpcmsg.AppendAccepted(nil, 1, rpcmsg.SystemErr), true},
	} {
		t.Run(tt.err.Error(), func(t *testing.T) {
			var log bytes.Buffer
			m := &Mux{Log: slog.New(slog.NewTextHandler(&log, nil))}
			m.Register(testProg, 2, handlerFunc(func(_ context.Context, _ *Call, r *Reply) error {
				r.Head = xdr.AppendUint32(r.Head, 42) // discarded
				r.NewItem(100)
				r.Tail = []byte("tail")
				return tt.err
			}))
			got := serveRequest(t, m, &Request{Msg: newCallMessage(1, testProg, 2, 1)})
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.logged, strings.Contains(log.String(), "disk on fire"))
		})
	}
}

func TestMuxPanic(t *testing.T) {
	var log bytes.Buffer
	m := &Mux{Log: slog.New(slog.NewTextHandler(&log, nil))}
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, r *Reply) error {
		r.NewItem(100)
		var none []byte
		_ = none[c.Proc]
		return nil
	}))
	got := serveRequest(t, m, &Request{Msg: newCallMessage(1, testProg, 2, 1), Peer: &Peer{Network: "tcp"}})
	assert.Equal(t, rpcmsg.AppendAccepted(nil, 1, rpcmsg.SystemErr), got)
	assert.Contains(t, log.String(), "index out of range")
	assert.Contains(t, log.String(), "TestMuxPanic", "the stack")
}

// TestMuxChecksReply checks that invalid replies of a handler are rejected.
func TestMuxChecksReply(t *testing.T) {
	const maxResults = 100 // bytes of results
	ok := rpcmsg.AppendAccepted(nil, 1, rpcmsg.Success)
	for _, tt := range []struct {
		name string
		make func(r *Reply)
		good bool
	}{
		{"fills the room", func(r *Reply) { r.Head = append(r.Head, make([]byte, maxResults)...) }, true},
		{"too long", func(r *Reply) { r.Head = append(r.Head, make([]byte, maxResults+4)...) }, false},
		{"item too long with its padding", func(r *Reply) { r.Head = xdr.AppendUint32(r.Head, maxResults-5); r.NewItem(maxResults - 5) }, true},
		{"item fills the room", func(r *Reply) { r.Head = xdr.AppendUint32(r.Head, maxResults-4); r.NewItem(maxResults - 4) }, true},
		{"item's padding too long", func(r *Reply) { r.Head = xdr.AppendUint32(r.Head, maxResults-3); r.NewItem(maxResults - 3) }, false},
		{"tail too long", func(r *Reply) { r.Tail = make([]byte, maxResults+1) }, false},
		{"item shortened", func(r *Reply) { r.Head = xdr.AppendUint32(r.Head, 3); r.NewItem(9); r.Item.B = r.Item.B[:3] }, true},
		{"item shortened, length forgotten", func(r *Reply) { r.Head = xdr.AppendUint32(r.Head, 9); r.NewItem(9); r.Item.B = r.Item.B[:3] }, false},
		{"no head", func(r *Reply) { r.Head = nil; r.NewItem(9) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &Mux{Log: discardLogger()}
			m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, r *Reply) error {
				assert.Equal(t, maxResults, c.MaxReply)
				tt.make(r)
				return nil
			}))
			got := serveRequest(t, m, &Request{Msg: newCallMessage(1, testProg, 2, 1), MaxReply: rpcmsg.AcceptedLen + maxResults})
			if tt.good {
				assert.Equal(t, ok, got[:rpcmsg.AcceptedLen])
				assert.LessOrEqual(t, len(got), rpcmsg.AcceptedLen+maxResults)
			} else {
				assert.Equal(t, rpcmsg.AppendAccepted(nil, 1, rpcmsg.SystemErr), got)
			}
		})
	}
}

func TestMuxMaxReplyBelowHeader(t *testing.T) {
	m := &Mux{Log: discardLogger()}
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, _ *Reply) error {
		assert.Zero(t, c.MaxReply)
		return nil
	}))
	assert.NotNil(t, serveRequest(t, m, &Request{Msg: newCallMessage(1, testProg, 2, 1), MaxReply: 8}))
}

func TestRegisterTwicePanics(t *testing.T) {
	m := echoMux()
	assert.Panics(t, func() { m.Register(testProg, 2, handlerFunc(serveEcho)) })
}

// TestMuxAllocatesNothing checks that the reply is built in the transport's
// memory.
func TestMuxAllocatesNothing(t *testing.T) {
	m := echoMux()
	req := &Request{Msg: wiretest.Hex(t, "testdata/authsys-call.hex"), MaxReply: 4096}
	binary.BigEndian.PutUint32(req.Msg[12:], testProg)
	binary.BigEndian.PutUint32(req.Msg[16:], 2)
	req.Msg = xdr.AppendOpaque(req.Msg, []byte("hello"))
	req.Msg[23] = procHead
	store := make([]byte, 0, 512)
	var rep Reply
	allocs := testing.AllocsPerRun(100, func() {
		rep = Reply{Head: store}
		if !m.Serve(t.Context(), req, &rep) {
			t.Fatal("no answer")
		}
	})
	require.Equal(t, echoReply(0x01020304, procHead, []byte("hello")), rep.Head)
	assert.Same(t, &store[:1][0], &rep.Head[0])
	assert.Less(t, allocs, 1.0) // the collector may empty the pool concurrently
}

// TestMuxRestrict checks that for other peers a restricted program is
// unavailable, even its versions and its procedure 0.
func TestMuxRestrict(t *testing.T) {
	m := echoMux()
	friend := new(Peer)
	m.Restrict(testProg, func(p *Peer) bool { return p == friend })
	unavailable := rpcmsg.AppendAccepted(nil, 7, rpcmsg.ProgUnavail)
	for _, vers := range []uint32{2, 3} {
		for _, proc := range []uint32{0, procHead} {
			msg := newCallMessage(7, testProg, vers, proc, xdr.AppendOpaque(nil, []byte("x"))...)
			assert.Equal(t, unavailable, serveRequest(t, m, &Request{Msg: msg, Peer: new(Peer)}))
			assert.NotEqual(t, unavailable, serveRequest(t, m, &Request{Msg: msg, Peer: friend}))
		}
	}
}
