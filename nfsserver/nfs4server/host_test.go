package nfs4server

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestClientOfMutualTLS checks that unencrypted calls, or calls over TLS without a certificate
// or with another host's, cannot end any state of a client that was created over mutual TLS, in
// any minor version, over both transports.
//
// R8881-2.4.3-1, R8881-18.35.4-3.
func TestClientOfMutualTLS(t *testing.T) {
	mine := &oncrpc.Security{Mutual: true, Owner: [32]byte{1}}
	for _, network := range []string{"tcp", "rdma"} {
		for _, other := range []*oncrpc.Security{nil, {}, {Mutual: true, Owner: [32]byte{2}}} {
			g := newTestServer(t)
			g.peer.Network, g.peer.Security = network, mine
			g.connectClient()
			h := g.onConnection("192.0.2.1:702", network)
			h.peer.Security = other
			_, st := h.exchangeID("client", 2, 0)
			assert.Equal(t, nfs4.ErrClidInUse, st, "%s by %s", network, other)
			st, _ = g.sendSteps(putRootStep(), attrs)
			assert.Equal(t, nfs4.OK, st)
			h.peer.Security = mine
			_, st = h.exchangeID("client", 2, 0)
			assert.Equal(t, nfs4.OK, st, "a restart of the client")

			g.minor, h.minor = nfs4.Minor0, nfs4.Minor0
			set := func(g *testServer, verifier byte) (res nfs4.SetClientIDRes, st nfs4.Status) {
				s := nfs4.SetClientIDArgs{Verifier: nfs4.Verifier{verifier}, ID: []byte("c")}
				st, _ = g.sendRaw(step{nfs4.OpSetClientID, &s, &res})
				return res, st
			}
			id, st := set(g, 1)
			require.Equal(t, nfs4.OK, st)
			confirm := step{nfs4.OpSetClientIDConfirm, &nfs4.SetClientIDConfirmArgs{ClientID: id.ClientID, Confirm: id.Confirm}, newStatusRes()}
			h.peer.Security = other
			st, _ = h.sendRaw(confirm)
			assert.Equal(t, nfs4.ErrClidInUse, st)
			st, _ = g.sendRaw(confirm)
			require.Equal(t, nfs4.OK, st)
			g.sendRaw(step{nfs4.OpRenew, &nfs4.ClientIDArgs{ClientID: id.ClientID}, newStatusRes()})
		}
	}
	// A verified principal proves more than a certificate.
	g := newTestServer(t)
	g.peer.Security, g.cred = mine, rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5i, Principal: "host/a@R"}
	g.connectClient()
	g.peer.Security = nil
	_, st := g.exchangeID("client", 2, 0)
	assert.Equal(t, nfs4.OK, st)
}

// TestStateOfMutualTLS40 checks that over NFSv4.0, which has no sessions, others can neither
// learn about a client's files with a client ID that they guess, nor close them, nor renew its
// lease. Users on the client's host may be verified or not.
func TestStateOfMutualTLS40(t *testing.T) {
	mine := &oncrpc.Security{Mutual: true, Owner: [32]byte{1}}
	user := rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5p, Principal: "a@R", UID: 1000, GID: 1000}
	for _, tt := range []struct {
		security *oncrpc.Security
		user     bool
	}{{nil, false}, {&oncrpc.Security{}, false}, {&oncrpc.Security{Mutual: true, Owner: [32]byte{2}}, false}, {nil, true}, {mine, true}, {mine, false}} {
		g := newTestServer(t, newExport(t, mem.New(mem.Options{Size: 1 << 20}), "/x", "rw,sec=sys:krb5p"))
		g.peer.Security = mine
		id := g.newMinor0Client("client", "tcp", "192.0.2.1.8.1")
		file, open := g.openFile40(id, "owner", "f")
		h := g.onConnection("192.0.2.1:702", "tcp")
		h.minor, h.peer.Security = nfs4.Minor0, tt.security
		if tt.user {
			h.cred = user
		}
		own := tt.security == mine
		check := func(st, other nfs4.Status, what string) {
			if own {
				assert.NotEqual(t, other, st, what)
				return
			}
			assert.Equal(t, other, st, "%s by %s", what, tt.security)
		}
		a := openArgs("another", "f", nfs4.ShareBoth, 0, nfs4.Unchecked)
		a.SeqID, a.Owner.ClientID = 1, id
		st, _ := h.sendRaw(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, a, new(nfs4.OpenRes)})
		check(st, nfs4.ErrStaleClientID, "OPEN")
		st, _ = h.sendRaw(putStep(file), step{nfs4.OpOpenConfirm, &nfs4.OpenConfirmArgs{StateID: open, SeqID: 2}, new(nfs4.StateIDRes)}) // a retry
		check(st, nfs4.ErrBadStateID, "OPEN_CONFIRM")
		st, _ = h.sendRaw(step{nfs4.OpRenew, &nfs4.ClientIDArgs{ClientID: id}, newStatusRes()})
		check(st, nfs4.ErrStaleClientID, "RENEW")
		st, _ = h.sendRaw(step{nfs4.OpReleaseLockOwner, &nfs4.ReleaseLockOwnerArgs{Owner: nfs4.StateOwner{ClientID: id, Owner: []byte("owner")}}, newStatusRes()})
		check(st, nfs4.ErrStaleClientID, "RELEASE_LOCKOWNER")
		st, _ = h.sendRaw(putStep(file), step{nfs4.OpClose, &nfs4.CloseArgs{SeqID: 3, StateID: open}, new(nfs4.StateIDRes)})
		check(st, nfs4.ErrBadStateID, "CLOSE")
		if !own {
			st, _ = g.sendRaw(putStep(file), step{nfs4.OpClose, &nfs4.CloseArgs{SeqID: 3, StateID: open}, new(nfs4.StateIDRes)})
			assert.Equal(t, nfs4.OK, st, "the client's own")
		}
	}
}

// TestDestroyOfMutualTLS checks that others, who can guess a client ID, cannot destroy a
// client between EXCHANGE_ID and CREATE_SESSION, or without a session.
func TestDestroyOfMutualTLS(t *testing.T) {
	mine := &oncrpc.Security{Mutual: true, Owner: [32]byte{1}}
	for _, confirmed := range []bool{false, true} {
		for _, other := range []*oncrpc.Security{nil, {}, {Mutual: true, Owner: [32]byte{2}}, mine} {
			g := newTestServer(t)
			g.peer.Security = mine
			var id uint64
			if confirmed {
				g.connectClient()
				id = g.s.state.Session(g.session).ClientID()
				st, _ := g.sendRaw(step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.session}, newStatusRes()})
				require.Equal(t, nfs4.OK, st)
			} else {
				res, st := g.exchangeID("client", 1, 0)
				require.Equal(t, nfs4.OK, st)
				id = res.ClientID
			}
			h := g.onConnection("192.0.2.1:702", "tcp")
			h.peer.Security = other
			want := nfs4.ErrWrongCred
			if other == mine {
				want = nfs4.OK
			}
			st, _ := h.sendRaw(step{nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{ClientID: id}, newStatusRes()})
			assert.Equal(t, want, st, "by %s", other)
		}
	}
}
