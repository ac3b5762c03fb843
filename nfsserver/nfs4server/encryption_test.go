package nfs4server

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

func credWithFlavor(flavor uint32) rpcmsg.Cred {
	c := rpcmsg.Cred{Flavor: flavor, UID: 1000, GID: 1000}
	if flavor >= rpcmsg.AuthKrb5 {
		c.Principal = "host/a@R"
	}
	return c
}

// TestOnlyEncrypted checks what a server that requires encryption accepts for each minor
// version, transport, protection and flavor: on unencrypted connections, with krb5i only
// COMPOUNDs that access no file, and with less nothing.
func TestOnlyEncrypted(t *testing.T) {
	for _, minor := range []uint32{nfs4.Minor0, nfs4.Minor1, nfs4.Minor2} {
		for _, network := range []string{"tcp", "rdma"} {
			for _, security := range []*oncrpc.Security{nil, {}, {Mutual: true}} {
				for _, flavor := range []uint32{rpcmsg.AuthNone, rpcmsg.AuthSys, rpcmsg.AuthKrb5, rpcmsg.AuthKrb5i, rpcmsg.AuthKrb5p} {
					g := newTestServer(t, newExport(t, mem.New(mem.Options{Size: 1 << 20}), "/x", "rw,sec=krb5p:sys:krb5:krb5i"))
					g.s.onlyEncrypted, g.minor = true, minor
					g.peer.Network, g.peer.Security, g.cred = network, security, credWithFlavor(flavor)
					what := fmt.Sprintf("4.%d, %s by %s, flavour %d", minor, network, security, flavor)
					whole := security != nil || flavor == rpcmsg.AuthKrb5p
					if !whole && flavor != rpcmsg.AuthKrb5i {
						call := oncrpc.Call{
							Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: g.cred, Peer: g.peer,
							Args: xdr.NewReader(g.encodeCompound(putRootStep())), MaxReply: 1 << 12,
						}
						assert.Equal(t, rpcmsg.AuthTooWeak, g.s.ServeRPC(context.Background(), &call, new(oncrpc.Reply)), what)
						continue
					}
					if minor == nfs4.Minor0 {
						g.checkEncrypted40(t, whole, what)
						continue
					}
					g.connectClient() // EXCHANGE_ID, CREATE_SESSION, SEQUENCE with RECLAIM_COMPLETE
					g.sendSteps()
					st, _ := g.sendSteps(putRootStep(), attrs)
					assert.Equal(t, whole, st == nfs4.OK, what)
					st, n := g.sendSteps(putRootStep(), lookupStep("x"), secInfoNoNameStep(nfs4.SecInfoCurrentFH))
					assert.Equal(t, whole, st == nfs4.OK, what)
					if !whole {
						assert.Equal(t, nfs4.ErrWrongSec, st, what)
						assert.Equal(t, 1, n, "before the first filehandle, %s", what)
						g.checkAllRejected(t, what)
					}
					st, _ = g.sendRaw(step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.session}, newStatusRes()})
					assert.Equal(t, nfs4.OK, st, what)
				}
			}
		}
	}
}

// checkEncrypted40 checks NFSv4.0.
func (g *testServer) checkEncrypted40(t *testing.T, whole bool, what string) {
	var id nfs4.SetClientIDRes
	st, _ := g.sendRaw(step{nfs4.OpSetClientID, &nfs4.SetClientIDArgs{ID: []byte("c")}, &id})
	require.Equal(t, nfs4.OK, st, what)
	st, _ = g.sendRaw(step{nfs4.OpSetClientIDConfirm, &nfs4.SetClientIDConfirmArgs{ClientID: id.ClientID, Confirm: id.Confirm}, newStatusRes()})
	require.Equal(t, nfs4.OK, st, what)
	st, _ = g.sendRaw(step{nfs4.OpRenew, &nfs4.ClientIDArgs{ClientID: id.ClientID}, newStatusRes()})
	assert.Equal(t, nfs4.OK, st, what)
	want := nfs4.OK
	if !whole {
		want = nfs4.ErrWrongSec
	}
	st, _ = g.sendRaw(putRootStep(), attrs)
	assert.Equal(t, want, st, what)
}

// checkAllRejected checks that no operation on a file is done: none gets a filehandle.
func (g *testServer) checkAllRejected(t *testing.T, what string) {
	for i := range operations {
		op, o := nfs4.Op(i), operations[i]
		if _, last, ok := op.Minors(); o.execute == nil || !ok || last == nfs4.Minor0 || g.minor == nfs4.Minor1 && op >= nfs4.OpAllocate {
			continue
		}
		want := nfs4.ErrNoFileHandle
		switch {
		case op == nfs4.OpPutFH, op == nfs4.OpPutRootFH, op == nfs4.OpPutPubFH:
			want = nfs4.ErrWrongSec
		case o.flags&(needsCurrent|needsSaved) == 0:
			continue // for clients, sessions, stateids
		}
		st, n := g.sendSteps(step{op, &void, newStatusRes()})
		assert.Equal(t, want, st, "%s, %s", op, what)
		assert.Equal(t, 1, n)
	}
}

// TestFlavorsOnlyEncrypted checks that SECINFO lists to an unencrypted client only the flavor
// with which it can continue.
func TestFlavorsOnlyEncrypted(t *testing.T) {
	for _, tt := range []struct {
		security *oncrpc.Security
		sec      string
		want     int
	}{{nil, "sys:krb5p:krb5", 1}, {&oncrpc.Security{}, "sys:krb5p:krb5", 3}, {nil, "krb5p", 1}} {
		g := newTestServer(t, newExport(t, mem.New(mem.Options{Size: 1 << 20}), "/x", "rw,sec="+tt.sec))
		g.s.onlyEncrypted, g.peer.Security, g.cred = true, tt.security, credWithFlavor(rpcmsg.AuthKrb5p)
		g.connectClient()
		s := secInfoStep("x")
		st, _ := g.sendSteps(putRootStep(), s)
		require.Equal(t, nfs4.OK, st)
		list := s.res.(*nfs4.SecInfoRes).Flavors
		require.Len(t, list, tt.want)
		if tt.want == 1 {
			assert.Equal(t, toSecInfo(390005), list[0])
		}
	}
}

// TestCallbacksOnlyEncrypted checks that a server that requires encryption sends no unencrypted
// callbacks.
func TestCallbacksOnlyEncrypted(t *testing.T) {
	for _, security := range []*oncrpc.Security{nil, {}} {
		g := newTestServer(t)
		g.s.onlyEncrypted, g.flags, g.cred = true, nfs4.SessionConnBackChan, credWithFlavor(rpcmsg.AuthKrb5p)
		g.peer.Reverse, g.peer.Security = fakeSilentPeer{}, security
		g.sessionAs("client")
		bind := step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.session, Dir: nfs4.BindForeOrBoth}, new(nfs4.BindConnRes)}
		st, _ := g.sendRaw(bind)
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, security != nil, bind.res.(*nfs4.BindConnRes).Dir == nfs4.BindBoth)
		path := g.s.state.BackPaths(g.s.state.Session(g.session).ClientID())
		assert.Equal(t, security != nil, len(path) > 0)
	}
}
