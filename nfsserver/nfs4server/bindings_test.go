package nfs4server

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestBindingEnds checks that closing a connection unbinds its sessions, including one that a
// late call binds again.
func TestBindingEnds(t *testing.T) {
	g := newTestServer(t).connectClient()
	s := g.s.state.Session(g.session)
	b := g.s.boundSessions.Load(g.peer)
	require.NotNil(t, b)
	free := func() bool { // whether the connection may be bound in any way
		_, status := s.Bind(g.peer, nfs4.BindBack)
		return status == nfs4.OK
	}
	assert.False(t, free())
	b.unbindAll(g.peer)
	assert.True(t, free())
	s.Unbind(g.peer)
	g.sendSteps() // SEQUENCE binds the connection
	assert.True(t, free(), "a call that outlives its connection")
}

// TestBindingOfRetry checks that closing a connection unbinds its session even if a retry that
// waited for its first call has bound it: a session has a limited number of connections.
func TestBindingOfRetry(t *testing.T) {
	g := newTestServer(t).connectClient()
	s := g.s.state.Session(g.session)
	o := g.s.state.Begin(s, &nfs4state.Sequenced{Sequence: g.seq + 1, Conn: g.peer})
	require.True(t, o.New)
	other := *g
	other.peer = &oncrpc.Peer{Addr: g.peer.Addr, Network: "tcp"}
	call := oncrpc.Call{
		Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: g.cred, Peer: other.peer,
		Args: xdr.NewReader(g.encodeCompound(g.sequenceStep(g.seq+1, false))), MaxReply: 4096,
	}
	rep := oncrpc.Reply{Aside: func() { s.End(0, nil, false, false) }} // the first call ends while the retry waits
	require.NoError(t, g.s.ServeRPC(t.Context(), &call, &rep))
	b := g.s.boundSessions.Load(other.peer)
	require.NotNil(t, b, "no session is unbound when the connection closes")
	b.unbindAll(other.peer)
	_, status := s.Bind(other.peer, nfs4.BindBack)
	assert.Equal(t, nfs4.OK, status, "the connection is still bound to the fore channel")
}

// TestBindingPrunes checks that sessions that have ended do not stay bound to a connection
// forever.
func TestBindingPrunes(t *testing.T) {
	g := newTestServer(t).connectClient()
	for range 10 * minPrune {
		g.sessionAs("client")
		id := g.session
		require.Equal(t, nfs4.OK, g.s.state.DestroySession(id, nil))
	}
	assert.LessOrEqual(t, len(g.s.boundSessions.Load(g.peer).sessions), minPrune)
}

// A fakeSilentPeer is a transport's way to call the client.
type fakeSilentPeer struct{ oncrpc.Caller }

// TestBackchannel checks that a backchannel is bound when the client asks for
// one and the connection can carry it, over either transport (RFC 8881,
// Sections 18.34.3 and 18.36.3).
//
// R8881-18.36.3-4.
func TestBackchannel(t *testing.T) {
	for _, network := range []string{"tcp", "rdma"} {
		for _, reverse := range []oncrpc.Caller{nil, fakeSilentPeer{}} {
			g := newTestServer(t)
			g.peer.Network, g.peer.Reverse = network, reverse
			var id nfs4.ExchangeIDRes
			st, _ := g.sendRaw(step{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte("c")}, &id})
			require.Equal(t, nfs4.OK, st)
			ch := nfs4.ChannelAttrs{MaxRequestSize: 1 << 20, MaxResponseSize: 1 << 20, MaxResponseSizeCached: 7584, MaxOperations: 16, MaxRequests: 8}
			var cs nfs4.CreateSessionRes
			st, _ = g.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{
				ClientID: id.ClientID, Sequence: id.SequenceID, Flags: nfs4.SessionConnBackChan, Fore: ch, Back: ch,
			}, &cs})
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, reverse != nil, cs.Flags&nfs4.SessionConnBackChan != 0)
			bind := step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: cs.Session, Dir: nfs4.BindForeOrBoth}, new(nfs4.BindConnRes)}
			st, _ = g.sendRaw(bind)
			require.Equal(t, nfs4.OK, st)
			want := nfs4.BindFore
			if reverse != nil {
				want = nfs4.BindBoth
			}
			assert.Equal(t, want, bind.res.(*nfs4.BindConnRes).Dir, network)
		}
	}
}

// TestUselessBackchannel binds a session whose backchannel can carry no callback
// (R8881-18.36.3-6, R8881-18.34.3-2).
func TestUselessBackchannel(t *testing.T) {
	g := newTestServer(t)
	g.peer.Reverse = fakeSilentPeer{}
	id, st := g.exchangeID("c", 1, 0)
	require.Equal(t, nfs4.OK, st)
	var back nfs4.ChannelAttrs // the client asks for none
	var cs nfs4.CreateSessionRes
	st, _ = g.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID, Fore: channel, Back: back}, &cs})
	require.Equal(t, nfs4.OK, st)
	for dir, want := range map[uint32]nfs4.Status{
		nfs4.BindFore: nfs4.OK, nfs4.BindForeOrBoth: nfs4.OK, nfs4.BindBack: nfs4.ErrInval, nfs4.BindBackOrBoth: nfs4.ErrInval,
	} {
		bind := step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: cs.Session, Dir: dir}, new(nfs4.BindConnRes)}
		st, _ = g.sendRaw(bind)
		assert.Equal(t, want, st, dir)
		if want == nfs4.OK {
			assert.Equal(t, nfs4.BindFore, bind.res.(*nfs4.BindConnRes).Dir)
		}
	}
}

// TestBackchannelInClear checks that a session made over TLS gets no unencrypted callbacks:
// they would expose filehandles, and others could reply.
func TestBackchannelInClear(t *testing.T) {
	for _, made := range []*oncrpc.Security{nil, {}} {
		g := newTestServer(t)
		g.peer.Reverse, g.peer.Security = fakeSilentPeer{}, made
		g.connectClient()
		for _, other := range []*oncrpc.Security{nil, {}, {Mutual: true}} {
			h := g.onConnection("192.0.2.1:702", "tcp")
			h.peer.Reverse, h.peer.Security = fakeSilentPeer{}, other
			bind := step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.session, Dir: nfs4.BindForeOrBoth}, new(nfs4.BindConnRes)}
			st, _ := h.sendRaw(bind)
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, made == nil || other != nil, bind.res.(*nfs4.BindConnRes).Dir == nfs4.BindBoth, "%v, %v", made, other)
		}
	}
}

// TestCallbackHandles names RPCSEC_GSS handles for callbacks that the server does not have:
// NFS4ERR_NOENT (RFC 8881, Sections 18.33.3 and 18.36.3).
//
// R8881-18.33.3-2.
func TestCallbackHandles(t *testing.T) {
	g := newTestServer(t).connectClient()
	parms := []byte{0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0} // service, and two empty handles
	st, _ := g.sendSteps(step{nfs4.OpBackchannelCtl, cutArgs(append([]byte{0x40, 0, 0, 0}, parms...)), newStatusRes()})
	assert.Equal(t, nfs4.ErrNoEnt, st)

	id, st := g.exchangeID("another", 1, 0)
	require.Equal(t, nfs4.OK, st)
	a := nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID, Fore: channel, Back: channel}
	b := a.AppendTo(nil)
	st, _ = g.sendRaw(step{nfs4.OpCreateSession, cutArgs(append(b[:len(b)-4], parms...)), new(nfs4.CreateSessionRes)})
	assert.Equal(t, nfs4.ErrNoEnt, st)
}
