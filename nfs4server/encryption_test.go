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
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/xdr"
)

func credBy(flavor uint32) rpcmsg.Cred {
	c := rpcmsg.Cred{Flavor: flavor, UID: 1000, GID: 1000}
	if flavor >= rpcmsg.AuthKrb5 {
		c.Principal = "host/a@R"
	}
	return c
}

// TestOnlyEncrypted checks what a server that demands encryption takes of each minor
// version, transport, protection and flavour: by connections in clear with krb5i only
// COMPOUNDs that touch no file, and with less nothing.
func TestOnlyEncrypted(t *testing.T) {
	for _, minor := range []uint32{nfs4.Minor0, nfs4.Minor1, nfs4.Minor2} {
		for _, network := range []string{"tcp", "rdma"} {
			for _, security := range []*oncrpc.Security{nil, {}, {Mutual: true}} {
				for _, flavor := range []uint32{rpcmsg.AuthNone, rpcmsg.AuthSys, rpcmsg.AuthKrb5, rpcmsg.AuthKrb5i, rpcmsg.AuthKrb5p} {
					g := newRig(t, exported(t, mem.New(mem.Options{Size: 1 << 20}), "/x", "rw,sec=krb5p:sys:krb5:krb5i"))
					g.s.onlyEncrypted, g.minor = true, minor
					g.peer.Network, g.peer.Security, g.cred = network, security, credBy(flavor)
					what := fmt.Sprintf("4.%d, %s by %s, flavour %d", minor, network, security, flavor)
					whole := security != nil || flavor == rpcmsg.AuthKrb5p
					if !whole && flavor != rpcmsg.AuthKrb5i {
						call := oncrpc.Call{
							Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: g.cred, Peer: g.peer,
							Args: xdr.NewReader(g.message(root())), MaxReply: 1 << 12,
						}
						assert.Equal(t, rpcmsg.AuthTooWeak, g.s.ServeRPC(context.Background(), &call, new(oncrpc.Reply)), what)
						continue
					}
					if minor == nfs4.Minor0 {
						g.encrypted40(t, whole, what)
						continue
					}
					g.connect() // EXCHANGE_ID, CREATE_SESSION, SEQUENCE with RECLAIM_COMPLETE
					g.do()
					st, _ := g.do(root(), attrs)
					assert.Equal(t, whole, st == nfs4.OK, what)
					st, n := g.do(root(), look("x"), secInfoOfStyle(nfs4.SecInfoCurrentFH))
					assert.Equal(t, whole, st == nfs4.OK, what)
					if !whole {
						assert.Equal(t, nfs4.ErrWrongSec, st, what)
						assert.Equal(t, 1, n, "before the first filehandle, %s", what)
						g.eachBarred(t, what)
					}
					st, _ = g.raw(step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.session}, status()})
					assert.Equal(t, nfs4.OK, st, what)
				}
			}
		}
	}
}

// encrypted40 checks version 4.0.
func (g *rig) encrypted40(t *testing.T, whole bool, what string) {
	var id nfs4.SetClientIDRes
	st, _ := g.raw(step{nfs4.OpSetClientID, &nfs4.SetClientIDArgs{ID: []byte("c")}, &id})
	require.Equal(t, nfs4.OK, st, what)
	st, _ = g.raw(step{nfs4.OpSetClientIDConfirm, &nfs4.SetClientIDConfirmArgs{ClientID: id.ClientID, Confirm: id.Confirm}, status()})
	require.Equal(t, nfs4.OK, st, what)
	st, _ = g.raw(step{nfs4.OpRenew, &nfs4.ClientIDArgs{ClientID: id.ClientID}, status()})
	assert.Equal(t, nfs4.OK, st, what)
	want := nfs4.OK
	if !whole {
		want = nfs4.ErrWrongSec
	}
	st, _ = g.raw(root(), attrs)
	assert.Equal(t, want, st, what)
}

// eachBarred checks that no operation on a file is done: none gets a filehandle.
func (g *rig) eachBarred(t *testing.T, what string) {
	for i := range operations {
		op, o := nfs4.Op(i), operations[i]
		if _, last, ok := op.Minors(); o.do == nil || !ok || last == nfs4.Minor0 || g.minor == nfs4.Minor1 && op >= nfs4.OpAllocate {
			continue
		}
		want := nfs4.ErrNoFileHandle
		switch {
		case op == nfs4.OpPutFH, op == nfs4.OpPutRootFH, op == nfs4.OpPutPubFH:
			want = nfs4.ErrWrongSec
		case o.flags&(needsCurrent|needsSaved) == 0:
			continue // of clients, sessions, stateids
		}
		st, n := g.do(step{op, &void, status()})
		assert.Equal(t, want, st, "%s, %s", op, what)
		assert.Equal(t, 1, n)
	}
}

// TestFlavorsOnlyEncrypted checks that SECINFO names to a client in clear only the
// flavour with which it can go on.
func TestFlavorsOnlyEncrypted(t *testing.T) {
	for _, tt := range []struct {
		security *oncrpc.Security
		sec      string
		want     int
	}{{nil, "sys:krb5p:krb5", 1}, {&oncrpc.Security{}, "sys:krb5p:krb5", 3}, {nil, "krb5p", 1}} {
		g := newRig(t, exported(t, mem.New(mem.Options{Size: 1 << 20}), "/x", "rw,sec="+tt.sec))
		g.s.onlyEncrypted, g.peer.Security, g.cred = true, tt.security, credBy(rpcmsg.AuthKrb5p)
		g.connect()
		s := secInfoOfName("x")
		st, _ := g.do(root(), s)
		require.Equal(t, nfs4.OK, st)
		list := s.res.(*nfs4.SecInfoRes).Flavors
		require.Len(t, list, tt.want)
		if tt.want == 1 {
			assert.Equal(t, secInfoOf(390005), list[0])
		}
	}
}

// TestCallbacksOnlyEncrypted checks that a server that demands encryption makes no
// callbacks in clear.
func TestCallbacksOnlyEncrypted(t *testing.T) {
	for _, security := range []*oncrpc.Security{nil, {}} {
		g := newRig(t)
		g.s.onlyEncrypted, g.flags, g.cred = true, nfs4.SessionConnBackChan, credBy(rpcmsg.AuthKrb5p)
		g.peer.Reverse, g.peer.Security = silent{}, security
		g.sessionAs("client")
		bind := step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.session, Dir: nfs4.BindForeOrBoth}, new(nfs4.BindConnRes)}
		st, _ := g.raw(bind)
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, security != nil, bind.res.(*nfs4.BindConnRes).Dir == nfs4.BindBoth)
		path := g.s.state.BackPaths(g.s.state.Session(g.session).ClientID())
		assert.Equal(t, security != nil, len(path) > 0)
	}
}
