package nfs4server

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A fakeContext marks the calls that it protects.
type fakeContext struct {
	of       string // the client's handle
	ends     time.Time
	overhead int
}

func (c *fakeContext) Left() time.Duration { return time.Until(c.ends) }

func (c *fakeContext) Overhead() (call, reply int) { return callHeaderLen + c.overhead, c.overhead }

func (c *fakeContext) Call(ctx context.Context, next oncrpc.Caller, x *oncrpc.Exchange) error {
	x.Cred = rpcmsg.Cred{Flavor: rpcmsg.AuthGSS, Principal: c.of}
	return next.Call(ctx, x)
}

// setContexts gives a server the contexts for host/a@R with some handles.
func (g *testServer) setContexts(contexts map[string]*fakeContext) {
	g.cred = rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5i, Principal: "host/a@R"}
	g.s.back = func(principal string, h nfs4.CallbackHandles) BackContext {
		if c := contexts[string(h.FromServer)]; c != nil && principal == "host/a@R" {
			c.of = string(h.FromClient)
			return c
		}
		return nil
	}
}

func callbackHandles(fore ...string) (p nfs4.SecParms) {
	for _, h := range fore {
		p.Handles = append(p.Handles, nfs4.CallbackHandles{Service: 2, FromServer: []byte(h), FromClient: []byte("client's " + h)})
	}
	return p
}

// TestCallbackContexts checks that a client that offers RPCSEC_GSS contexts is called with
// them, from the first call on, and with nothing that it has not offered; and that it is
// notified of their end, and can add others.
//
// R8881-2.10.8.2-1, R8881-2.10.13.2.5-1, R8881-18.33.3-1, R8881-18.33.3-2, R8881-18.36.3-8.
func TestCallbackContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		now := time.Now()
		short, long, later := &fakeContext{ends: now.Add(time.Minute)}, &fakeContext{ends: now.Add(time.Hour)}, &fakeContext{ends: now.Add(2 * time.Hour)}
		g.setContexts(map[string]*fakeContext{"short": short, "long": long, "later": later})
		id, st := g.exchangeID("kerberos", 1, 0)
		require.Equal(t, nfs4.OK, st)
		var cs nfs4.CreateSessionRes
		st, _ = g.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{
			ClientID: id.ClientID, Sequence: id.SequenceID, Flags: nfs4.SessionConnBackChan, Fore: channel, Back: channel, CBProgram: 5, SecParms: callbackHandles("short", "long"),
		}, &cs})
		require.Equal(t, nfs4.OK, st)
		require.Equal(t, nfs4.SessionConnBackChan, cs.Flags)
		g.session, g.seq = cs.Session, 0
		machine, user := g.cred, rpcmsg.Cred{Flavor: rpcmsg.AuthSys}
		g.cred = user
		st, _ = g.sendSteps(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, newStatusRes()})
		require.Equal(t, nfs4.OK, st)
		flags := func() uint32 {
			g.seq++
			seq := g.sequenceStep(g.seq, false)
			st, _ := g.sendRaw(seq)
			require.Equal(t, nfs4.OK, st)
			return seq.res.(*nfs4.SequenceRes).Flags
		}
		recalled := func(name string) rpcmsg.Cred {
			g.makeFileStep(name)
			d, put := g.openDelegated(name)
			n := back.callCount()
			g.s.exports.Holders().RecallAll()
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, n+1, back.callCount())
			assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
			return back.lastCall().Cred
		}
		assert.Equal(t, rpcmsg.Cred{Flavor: rpcmsg.AuthGSS, Principal: "client's long"}, recalled("f"))
		assert.Zero(t, flags())
		time.Sleep(time.Until(long.ends) - recallLease)
		assert.Equal(t, nfs4.SeqCBGSSContextsExpiring, flags())
		time.Sleep(recallLease)
		assert.Equal(t, nfs4.SeqCBGSSContextsExpired, flags())
		g.makeFileStep("g")
		opened, _ := g.openFile("g", nfs4.ShareRead, 0)
		assert.NotEqual(t, nfs4.DelegateRead, opened.Delegation.Type, "the client cannot be called")

		control := func(p nfs4.SecParms) nfs4.Status {
			g.cred = machine
			defer func() { g.cred = user }()
			st, _ := g.sendSteps(step{nfs4.OpBackchannelCtl, &nfs4.BackchannelCtlArgs{CBProgram: 6, SecParms: p}, newStatusRes()})
			return st
		}
		assert.Equal(t, nfs4.ErrNoEnt, control(callbackHandles("later", "unknown")))
		assert.Equal(t, nfs4.SeqCBGSSContextsExpired, flags())
		require.Equal(t, nfs4.OK, control(callbackHandles("later")))
		assert.Zero(t, flags())
		assert.Equal(t, rpcmsg.Cred{Flavor: rpcmsg.AuthGSS, Principal: "client's later"}, recalled("h"))
		assert.EqualValues(t, 6, back.lastCall().Prog)

		sys := callbackHandles()
		sys.Sys, sys.UID = true, 9
		require.Equal(t, nfs4.OK, control(sys))
		assert.Equal(t, rpcmsg.AuthGSS, recalled("i").Flavor, "contexts are added, and not replaced")
		later.ends = time.Now()
		assert.Equal(t, rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 9}, recalled("j"), "the client has offered that as well")
	})
}

// TestCallbackContextOfOthers checks that a session has no contexts from other principals, and
// none without RPCSEC_GSS.
func TestCallbackContextOfOthers(t *testing.T) {
	g := newTestServer(t)
	g.setContexts(map[string]*fakeContext{"h": {ends: time.Now().Add(time.Hour)}})
	create := func(by rpcmsg.Cred) nfs4.Status {
		g.cred = by
		id, st := g.exchangeID("client of "+by.Principal, 1, 0)
		require.Equal(t, nfs4.OK, st)
		st, _ = g.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{
			ClientID: id.ClientID, Sequence: id.SequenceID, Fore: channel, Back: channel, SecParms: callbackHandles("h"),
		}, new(nfs4.CreateSessionRes)})
		return st
	}
	assert.Equal(t, nfs4.OK, create(g.cred))
	assert.Equal(t, nfs4.ErrNoEnt, create(rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5, Principal: "host/b@R"}))
	assert.Equal(t, nfs4.ErrNoEnt, create(rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1000}))
}

// TestCallbackContextRoom checks that a backchannel's limits leave space for what a context
// adds to callbacks (R8881-18.36.3-6, R8881-18.36.3-7).
func TestCallbackContextRoom(t *testing.T) {
	g, _ := newDelegServer(t)
	const overhead = 100
	g.setContexts(map[string]*fakeContext{"h": {ends: time.Now().Add(time.Hour), overhead: overhead}})
	for _, tt := range []struct {
		request, response int
		want              nfs4.Status
	}{
		{minCallback + overhead, minCallbackRes + overhead, nfs4.OK},
		{minCallback + overhead - 1, minCallbackRes + overhead, nfs4.ErrTooSmall},
		{minCallback + overhead, minCallbackRes + overhead - 1, nfs4.ErrTooSmall},
	} {
		id, st := g.exchangeID("kerberos", 1, 0)
		require.Equal(t, nfs4.OK, st)
		st, _ = g.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{
			ClientID: id.ClientID, Sequence: id.SequenceID, Flags: nfs4.SessionConnBackChan, Fore: channel,
			Back:     nfs4.ChannelAttrs{MaxRequestSize: uint32(tt.request), MaxResponseSize: uint32(tt.response), MaxOperations: 2, MaxRequests: 1},
			SecParms: callbackHandles("h"),
		}, new(nfs4.CreateSessionRes)})
		assert.Equal(t, tt.want, st, tt)
	}
	c := &callback{op: nfs4.CBOpRecall, args: &nfs4.CBRecallArgs{Object: make([]byte, exportset.MaxHandle)}}
	assert.Equal(t, minCallback+overhead, c.messageLen(&nfs4state.BackPath{Context: &fakeContext{overhead: overhead}, Session: new(nfs4state.Session)}, nil))
}

// TestPlainCallbackOfKerberos checks that an NFSv4.0 client that has made its ID with
// RPCSEC_GSS is not called, and so has no delegations: the server cannot prove its identity in
// the call (R7530-3.3.3-1, R7530-3.3.3-3).
func TestPlainCallbackOfKerberos(t *testing.T) {
	g, _ := newDelegServer(t)
	g.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("127.0.0.1:700"), Network: "tcp"}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	g.cred = rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5, Principal: "host/a@R"}
	id := g.newMinor0Client("kerberos", "tcp", callbackAddr(l))
	r := &g.s.callbacks
	r.mu.Lock()
	assert.Empty(t, r.byClient[id])
	assert.Empty(t, r.probes)
	r.mu.Unlock()
}

// TestReclaimOfKerberos checks an NFSv4.0 client that made its ID with RPCSEC_GSS, and has a
// delegation from an earlier server release, which called such clients: it reclaims the
// delegation, and the results tell it to return it, because no call could (RFC 7530, Section
// 10.2.1).
func TestReclaimOfKerberos(t *testing.T) {
	g, _ := newDelegServer(t)
	state := t.TempDir()
	g.restartServer(state, 8)
	g.newCallableClient("client", "192.0.2.1:700")
	put := g.makeFileStep("f")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	g.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("127.0.0.1:700"), Network: "tcp"}
	user := g.cred
	login := func() uint64 {
		g.cred = rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5, Principal: "host/a@R"}
		defer func() { g.cred = user }()
		return g.newMinor0Client("kerberos", "tcp", callbackAddr(l))
	}
	id := login()
	assert.Empty(t, g.s.state.BackPaths(id))
	a := openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate)
	a.Owner.ClientID, a.SeqID = id, 1
	open := func(from ...step) (d nfs4.OpenDelegation) {
		var res nfs4.OpenRes
		st, _ := g.sendRaw(append(from, step{nfs4.OpOpen, a, &res})...)
		require.Equal(t, nfs4.OK, st)
		if a.SeqID == 1 && a.Claim == nfs4.ClaimNull {
			st, _ = g.sendRaw(put.withNewResults(), step{nfs4.OpOpenConfirm, &nfs4.OpenConfirmArgs{StateID: res.StateID, SeqID: 2}, new(nfs4.StateIDRes)})
			require.Equal(t, nfs4.OK, st)
		}
		return res.Delegation
	}
	open(putRootStep(), lookupStep("x"))
	a.SeqID = 3
	assert.Equal(t, nfs4.DelegateNone, open(putRootStep(), lookupStep("x")).Type)
	g.s.state.CallbackAnswers(id, nfs4state.Callback{Program: 0x40000001, Ident: 7, NetID: "tcp", UAddr: callbackAddr(l)}, true) // as in the earlier release
	a.SeqID = 4
	require.Equal(t, nfs4.DelegateRead, open(putRootStep(), lookupStep("x")).Type)

	g.restartServer(state, 9)
	a.Owner.ClientID, a.SeqID = login(), 1
	a.Claim, a.Name, a.Delegation = nfs4.ClaimPrevious, nil, nfs4.DelegateRead
	d := open(put.withNewResults())
	require.Equal(t, nfs4.DelegateRead, d.Type)
	assert.True(t, d.Recall)
	assert.EqualValues(t, 1, g.s.state.Counts().Recalled)
	st, _ := g.sendRaw(put.withNewResults(), step{nfs4.OpDelegReturn, &nfs4.StateIDArgs{StateID: d.StateID}, newStatusRes()})
	assert.Equal(t, nfs4.OK, st)
}

// A client that asks again and again for a backchannel that can carry no callback leaves
// nothing behind but its record, which another client may displace.
func TestUselessBackchannels(t *testing.T) {
	g := newTestServer(t)
	for i := range 10_000 {
		owner := fmt.Sprint(i % 2_000)
		id, st := g.exchangeID(owner, byte(i/2_000), 0)
		require.Equal(t, nfs4.OK, st)
		back := nfs4.ChannelAttrs{MaxRequestSize: 10, MaxResponseSize: 4096, MaxOperations: 1, MaxRequests: 1}
		st, _ = g.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{
			ClientID: id.ClientID, Sequence: id.SequenceID, Fore: channel, Back: back, SecParms: nfs4.SecParms{None: true},
		}, new(nfs4.CreateSessionRes)})
		require.Equal(t, nfs4.ErrTooSmall, st)
	}
	n := g.s.state.Counts()
	assert.Zero(t, n.Sessions)
	assert.Zero(t, n.Replies)
	assert.Equal(t, n.Unconfirmed, n.Clients)
	assert.LessOrEqual(t, n.Clients, 512, "the share of one address")
	assert.Nil(t, g.s.boundSessions.Load(g.peer), "bound connections")
}
