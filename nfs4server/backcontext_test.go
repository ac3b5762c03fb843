package nfs4server

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/realm"
)

// A fakeContext marks the calls that it protects.
type fakeContext struct {
	of   string // the client's handle
	ends time.Time
	room int
}

func (c *fakeContext) Left() time.Duration { return time.Until(c.ends) }

func (c *fakeContext) Room() (call, reply int) { return callHeader + c.room, c.room }

func (c *fakeContext) Call(ctx context.Context, next oncrpc.Caller, x *oncrpc.Exchange) error {
	x.Cred = rpcmsg.Cred{Flavor: rpcmsg.AuthGSS, Principal: c.of}
	return next.Call(ctx, x)
}

// withContexts gives a server the contexts of host/a@R with some of the server's handles.
func (g *rig) withContexts(contexts map[string]*fakeContext) {
	g.cred = rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5i, Principal: "host/a@R"}
	g.s.back = func(principal string, h nfs4.CallbackHandles) BackContext {
		if c := contexts[string(h.FromServer)]; c != nil && principal == "host/a@R" {
			c.of = string(h.FromClient)
			return c
		}
		return nil
	}
}

func handlesOf(fore ...string) (p nfs4.SecParms) {
	for _, h := range fore {
		p.Handles = append(p.Handles, nfs4.CallbackHandles{Service: 2, FromServer: []byte(h), FromClient: []byte("client's " + h)})
	}
	return p
}

// TestCallbackContexts checks that a client which offers contexts of RPCSEC_GSS is called
// by them, from the first call on, and by nothing that it has not offered; and that
// it learns of their end, and can add others.
//
// R8881-2.10.8.2-1, R8881-2.10.13.2.5-1, R8881-18.33.3-1, R8881-18.33.3-2, R8881-18.36.3-8.
func TestCallbackContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := delegRig(t)
		now := time.Now()
		short, long, later := &fakeContext{ends: now.Add(time.Minute)}, &fakeContext{ends: now.Add(time.Hour)}, &fakeContext{ends: now.Add(2 * time.Hour)}
		g.withContexts(map[string]*fakeContext{"short": short, "long": long, "later": later})
		id, st := g.exchange("kerberos", 1, 0)
		require.Equal(t, nfs4.OK, st)
		var cs nfs4.CreateSessionRes
		st, _ = g.raw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{
			ClientID: id.ClientID, Sequence: id.SequenceID, Flags: nfs4.SessionConnBackChan, Fore: channel, Back: channel, CBProgram: 5, SecParms: handlesOf("short", "long"),
		}, &cs})
		require.Equal(t, nfs4.OK, st)
		require.Equal(t, nfs4.SessionConnBackChan, cs.Flags)
		g.session, g.seq = cs.Session, 0
		machine, user := g.cred, rpcmsg.Cred{Flavor: rpcmsg.AuthSys}
		g.cred = user
		st, _ = g.do(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, status()})
		require.Equal(t, nfs4.OK, st)
		flags := func() uint32 {
			g.seq++
			seq := g.sequence(g.seq, false)
			st, _ := g.raw(seq)
			require.Equal(t, nfs4.OK, st)
			return seq.res.(*nfs4.SequenceRes).Flags
		}
		recalled := func(name string) rpcmsg.Cred {
			g.file(name)
			d, put := g.delegated(name)
			n := back.count()
			g.s.realm.Holders().RecallAll()
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, n+1, back.count())
			assert.Equal(t, nfs4.OK, g.give(put, d.StateID))
			return back.lastCall().Cred
		}
		assert.Equal(t, rpcmsg.Cred{Flavor: rpcmsg.AuthGSS, Principal: "client's long"}, recalled("f"))
		assert.Zero(t, flags())
		time.Sleep(time.Until(long.ends) - recallLease)
		assert.Equal(t, nfs4.SeqCBGSSContextsExpiring, flags())
		time.Sleep(recallLease)
		assert.Equal(t, nfs4.SeqCBGSSContextsExpired, flags())
		g.file("g")
		opened, _ := g.openFile("g", nfs4.ShareRead, 0)
		assert.NotEqual(t, nfs4.DelegateRead, opened.Delegation.Type, "the client cannot be called")

		control := func(p nfs4.SecParms) nfs4.Status {
			g.cred = machine
			defer func() { g.cred = user }()
			st, _ := g.do(step{nfs4.OpBackchannelCtl, &nfs4.BackchannelCtlArgs{CBProgram: 6, SecParms: p}, status()})
			return st
		}
		assert.Equal(t, nfs4.ErrNoEnt, control(handlesOf("later", "unknown")))
		assert.Equal(t, nfs4.SeqCBGSSContextsExpired, flags())
		require.Equal(t, nfs4.OK, control(handlesOf("later")))
		assert.Zero(t, flags())
		assert.Equal(t, rpcmsg.Cred{Flavor: rpcmsg.AuthGSS, Principal: "client's later"}, recalled("h"))
		assert.EqualValues(t, 6, back.lastCall().Prog)

		sys := handlesOf()
		sys.Sys, sys.UID = true, 9
		require.Equal(t, nfs4.OK, control(sys))
		assert.Equal(t, rpcmsg.AuthGSS, recalled("i").Flavor, "contexts are added, and not replaced")
		later.ends = time.Now()
		assert.Equal(t, rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 9}, recalled("j"), "the client has offered that as well")
	})
}

// TestCallbackContextOfOthers checks that a session has no contexts of other principals, and
// none without RPCSEC_GSS.
func TestCallbackContextOfOthers(t *testing.T) {
	g := newRig(t)
	g.withContexts(map[string]*fakeContext{"h": {ends: time.Now().Add(time.Hour)}})
	create := func(by rpcmsg.Cred) nfs4.Status {
		g.cred = by
		id, st := g.exchange("client of "+by.Principal, 1, 0)
		require.Equal(t, nfs4.OK, st)
		st, _ = g.raw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{
			ClientID: id.ClientID, Sequence: id.SequenceID, Fore: channel, Back: channel, SecParms: handlesOf("h"),
		}, new(nfs4.CreateSessionRes)})
		return st
	}
	assert.Equal(t, nfs4.OK, create(g.cred))
	assert.Equal(t, nfs4.ErrNoEnt, create(rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5, Principal: "host/b@R"}))
	assert.Equal(t, nfs4.ErrNoEnt, create(rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1000}))
}

// TestCallbackContextRoom checks that the limits of a backchannel leave room for what a
// context adds to callbacks (R8881-18.36.3-6, R8881-18.36.3-7).
func TestCallbackContextRoom(t *testing.T) {
	g, _ := delegRig(t)
	const room = 100
	g.withContexts(map[string]*fakeContext{"h": {ends: time.Now().Add(time.Hour), room: room}})
	for _, tt := range []struct {
		request, response int
		want              nfs4.Status
	}{
		{minCallback + room, minCallbackRes + room, nfs4.OK},
		{minCallback + room - 1, minCallbackRes + room, nfs4.ErrTooSmall},
		{minCallback + room, minCallbackRes + room - 1, nfs4.ErrTooSmall},
	} {
		id, st := g.exchange("kerberos", 1, 0)
		require.Equal(t, nfs4.OK, st)
		st, _ = g.raw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{
			ClientID: id.ClientID, Sequence: id.SequenceID, Flags: nfs4.SessionConnBackChan, Fore: channel,
			Back:     nfs4.ChannelAttrs{MaxRequestSize: uint32(tt.request), MaxResponseSize: uint32(tt.response), MaxOperations: 2, MaxRequests: 1},
			SecParms: handlesOf("h"),
		}, new(nfs4.CreateSessionRes)})
		assert.Equal(t, tt.want, st, tt)
	}
	c := &callback{op: nfs4.CBOpRecall, args: &nfs4.CBRecallArgs{Object: make([]byte, realm.MaxHandle)}}
	assert.Equal(t, minCallback+room, c.length(&nfs4state.BackPath{Context: &fakeContext{room: room}, Session: new(nfs4state.Session)}, nil))
}

// TestPlainCallbackOfKerberos checks that a client of version 4.0 which has made its ID by
// RPCSEC_GSS is not called, and so has no delegations: the server cannot prove to it
// whose the call is (R7530-3.3.3-1, R7530-3.3.3-3).
func TestPlainCallbackOfKerberos(t *testing.T) {
	g, _ := delegRig(t)
	g.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("127.0.0.1:700"), Network: "tcp"}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	g.cred = rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5, Principal: "host/a@R"}
	id := g.plain("kerberos", "tcp", uaddr(l))
	r := &g.s.callbacks
	r.mu.Lock()
	assert.Empty(t, r.clients[id])
	assert.Empty(t, r.probes)
	r.mu.Unlock()
}

// TestReclaimOfKerberos checks a client of version 4.0 that made its ID by RPCSEC_GSS, and
// has a delegation of an earlier release of the server, which called such clients: it
// reclaims the delegation, and is told by the results to return it, because no call
// could (RFC 7530, Section 10.2.1).
func TestReclaimOfKerberos(t *testing.T) {
	g, _ := delegRig(t)
	state := t.TempDir()
	g.start(state, 8)
	g.callable("client", "192.0.2.1:700")
	put := g.file("f")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	g.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("127.0.0.1:700"), Network: "tcp"}
	user := g.cred
	login := func() uint64 {
		g.cred = rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5, Principal: "host/a@R"}
		defer func() { g.cred = user }()
		return g.plain("kerberos", "tcp", uaddr(l))
	}
	id := login()
	assert.Empty(t, g.s.state.BackPaths(id))
	a := openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate)
	a.Owner.ClientID, a.SeqID = id, 1
	open := func(from ...step) (d nfs4.OpenDelegation) {
		var res nfs4.OpenRes
		st, _ := g.raw(append(from, step{nfs4.OpOpen, a, &res})...)
		require.Equal(t, nfs4.OK, st)
		if a.SeqID == 1 && a.Claim == nfs4.ClaimNull {
			st, _ = g.raw(put.again(), step{nfs4.OpOpenConfirm, &nfs4.OpenConfirmArgs{StateID: res.StateID, SeqID: 2}, new(nfs4.StateIDRes)})
			require.Equal(t, nfs4.OK, st)
		}
		return res.Delegation
	}
	open(root(), look("x"))
	a.SeqID = 3
	assert.Equal(t, nfs4.DelegateNone, open(root(), look("x")).Type)
	g.s.state.CallbackAnswers(id, nfs4state.Callback{Program: 0x40000001, Ident: 7, NetID: "tcp", UAddr: uaddr(l)}, true) // as in the earlier release
	a.SeqID = 4
	require.Equal(t, nfs4.DelegateRead, open(root(), look("x")).Type)

	g.start(state, 9)
	a.Owner.ClientID, a.SeqID = login(), 1
	a.Claim, a.Name, a.Delegation = nfs4.ClaimPrevious, nil, nfs4.DelegateRead
	d := open(put.again())
	require.Equal(t, nfs4.DelegateRead, d.Type)
	assert.True(t, d.Recall)
	assert.EqualValues(t, 1, g.s.state.Counts().Recalled)
	st, _ := g.raw(put.again(), step{nfs4.OpDelegReturn, &nfs4.StateIDArgs{StateID: d.StateID}, status()})
	assert.Equal(t, nfs4.OK, st)
}
