package nfs4server

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A trunkedServer is a server with two addresses.
type trunkedServer struct {
	*testServer
	listeners [2]net.Listener
}

func newTrunkedServer(t *testing.T) *trunkedServer {
	clients := exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})
	g := newTestServer(t, exportset.Export{Path: "/x", FS: mem.New(mem.Options{Size: 1 << 20}), Clients: clients}).becomeRoot()
	s := &trunkedServer{testServer: g}
	var mux oncrpc.Mux
	g.s.Register(&mux)
	server := &oncrpc.Server{Handler: &mux}
	served := make(chan error, len(s.listeners))
	t.Cleanup(func() {
		g.s.Close()
		assert.NoError(t, server.Shutdown(context.Background()))
		for range s.listeners {
			assert.NoError(t, <-served)
		}
	})
	for i, addr := range []string{"127.0.0.1:0", "127.0.0.2:0"} {
		l, err := net.Listen("tcp4", addr)
		require.NoError(t, err)
		s.listeners[i] = l
		go func() { served <- server.Serve(l) }()
	}
	return s
}

// dialFrom returns a client on a new connection from 127.0.0.host to one of the server's addresses.
func (s *trunkedServer) dialFrom(host byte, address int) *testServer {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}
	c, err := d.Dial("tcp4", s.listeners[address].Addr().String())
	require.NoError(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	require.NoError(s.t, c.SetDeadline(time.Now().Add(time.Minute)), "a call without a reply fails the test")
	g := *s.testServer
	g.conn = &testConn{s.t, c}
	return &g
}

// bindConn sends BIND_CONN_TO_SESSION.
func (g *testServer) bindConn(dir uint32) (uint32, nfs4.Status) {
	var res nfs4.BindConnRes
	st, _ := g.sendRaw(step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.session, Dir: dir}, &res})
	return res.Dir, st
}

// pathFlags returns the status flags of a SEQUENCE that say that a backchannel is missing.
func (g *testServer) pathFlags() uint32 {
	g.seq++
	seq := g.sequenceStep(g.seq, false)
	st, _ := g.sendRaw(seq)
	require.Equal(g.t, nfs4.OK, st)
	return seq.res.(*nfs4.SequenceRes).Flags & (nfs4.SeqCBPathDown | nfs4.SeqCBPathDownSession)
}

// readCallback reads a callback from the server, and returns CB_SEQUENCE's arguments.
func (c testConn) readCallback() (seq nfs4.CBSequenceArgs) {
	c.t.Helper()
	const header = 40 // of a call with AUTH_NONE
	r := xdr.NewReader(c.readMessage()[header:])
	var head nfs4.CBCompoundArgs
	head.Decode(&r)
	require.Equal(c.t, nfs4.CBOpSequence, nfs4.CBOp(r.Uint32()))
	seq.Decode(&r)
	require.NoError(c.t, r.Err())
	return seq
}

// TestTwoAddresses checks a client with two addresses at a server with two: both show it one server
// (R8881-2.10.5-2), so that it may use one session over both (R8881-2.10.5-1) or one for each
// (R8881-2.10.5-3).
func TestTwoAddresses(t *testing.T) {
	s := newTrunkedServer(t)
	first, second := s.dialFrom(1, 0), s.dialFrom(5, 1)
	first.connectAs("client")
	here, st := first.exchangeID("client", 0, 0)
	require.Equal(t, nfs4.OK, st)

	stranger := s.dialFrom(9, 1)
	create := step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: here.ClientID, Sequence: here.SequenceID, Fore: channel, Back: channel}, new(nfs4.CreateSessionRes)}
	st, _ = stranger.sendRaw(create)
	assert.Equal(t, nfs4.ErrStaleClientID, st, "an address from which the client has not sent its verifier")
	st, _ = stranger.sendRaw(step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: first.session}, newStatusRes()})
	assert.Equal(t, nfs4.ErrConnNotBoundToSession, st)

	there, st := second.exchangeID("client", 0, 0)
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, here, there)
	assert.NotZero(t, there.Flags&nfs4.ExchangeConfirmed)

	res, fh, st := first.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
	require.Equal(t, nfs4.OK, st)
	second.session, second.seq = first.session, first.seq
	require.Equal(t, nfs4.OK, second.writeFile(fh, res.StateID, "by the other address"), "SEQUENCE binds the connection")
	got, st := second.readFile(fh, res.StateID)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, "by the other address", got)

	third := s.dialFrom(5, 1)
	third.session, third.seq = second.session, second.seq
	dir, st := third.bindConn(nfs4.BindForeOrBoth)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.BindBoth, dir)
	st, _ = third.sendRaw(create)
	require.Equal(t, nfs4.OK, st, "another session of the client")
	third.session, third.seq = create.res.(*nfs4.CreateSessionRes).Session, 0
	assert.Equal(t, nfs4.OK, third.closeFile(fh, res.StateID))

	rdma := s.testServer.onConnection("127.0.0.5:700", "rdma")
	apart, st := rdma.exchangeID("client", 0, 0)
	require.Equal(t, nfs4.OK, st)
	assert.NotEqual(t, here.ClientID, apart.ClientID, "Linux does not trunk over several transports")
	assert.NotEqual(t, here.MajorID, apart.MajorID)
	assert.Equal(t, here.Scope, apart.Scope)
}

// TestAddressFails checks that a client whose connection to one of two addresses closes continues
// over the other: it gets the reply to a call that it repeats there (R8881-2.10.6.2-1), keeps its
// state, and the server sends it a callback again when it has moved the backchannel
// (R8881-2.10.6.2-4).
func TestAddressFails(t *testing.T) {
	s := newTrunkedServer(t)
	first, second := s.dialFrom(1, 0), s.dialFrom(5, 1)
	first.flags = nfs4.SessionConnBackChan
	first.connectAs("client")
	res, fh, st := first.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
	require.Equal(t, nfs4.OK, st)
	second.session, second.seq = first.session, first.seq
	assert.Zero(t, second.pathFlags(), "one of the connections has the backchannel")

	call := []step{second.sequenceStep(second.seq+1, true), putRootStep(), lookupStep("x"), mkdirStep("d")}
	want := first.sendCompound(call...)
	st, _ = statusOfReply(t, want)
	require.Equal(t, nfs4.OK, st)

	session := s.s.state.Session(first.session)
	answered := make(chan struct{})
	s.s.callbacks.enqueue(&callback{
		client: session.ClientID(), session: session, op: nfs4.CBOpRecallSlot, args: new(nfs4.CBRecallSlotArgs),
		isWanted: func() bool {
			select {
			case <-answered:
				return false
			default:
				return true
			}
		},
	})
	sent := first.conn.readCallback()
	require.NoError(t, first.conn.Close())
	second.seq++
	assert.Equal(t, want, second.sendCompound(call...), "the directory is made once")
	require.Eventually(t, func() bool { return second.pathFlags() == nfs4.SeqCBPathDown|nfs4.SeqCBPathDownSession }, time.Minute, time.Millisecond)

	dir, st := second.bindConn(nfs4.BindBoth)
	require.Equal(t, nfs4.OK, st)
	require.Equal(t, nfs4.BindBoth, dir)
	assert.Equal(t, sent.Session, second.conn.readCallback().Session)
	close(answered)
	assert.Zero(t, second.pathFlags())
	assert.Equal(t, nfs4.OK, second.writeFile(fh, res.StateID, "still open"))
	assert.Equal(t, nfs4.OK, second.closeFile(fh, res.StateID))
}
