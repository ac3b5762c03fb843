package nfs4server

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// TestClientOfMutualTLS checks that calls in clear, by TLS alone or by another host's
// certificate end no state of a client that mutual TLS has made, in any minor version,
// over both transports.
//
// R8881-2.4.3-1, R8881-18.35.4-3.
func TestClientOfMutualTLS(t *testing.T) {
	mine := &oncrpc.Security{Mutual: true, Owner: [32]byte{1}}
	for _, network := range []string{"tcp", "rdma"} {
		for _, other := range []*oncrpc.Security{nil, {}, {Mutual: true, Owner: [32]byte{2}}} {
			g := newRig(t)
			g.peer.Network, g.peer.Security = network, mine
			g.connect()
			h := g.on("192.0.2.1:702", network)
			h.peer.Security = other
			_, st := h.exchange("client", 2, 0)
			assert.Equal(t, nfs4.ErrClidInUse, st, "%s by %s", network, other)
			st, _ = g.do(root(), attrs)
			assert.Equal(t, nfs4.OK, st)
			h.peer.Security = mine
			_, st = h.exchange("client", 2, 0)
			assert.Equal(t, nfs4.OK, st, "a restart of the client")

			g.minor, h.minor = nfs4.Minor0, nfs4.Minor0
			set := func(g *rig, verifier byte) (res nfs4.SetClientIDRes, st nfs4.Status) {
				s := nfs4.SetClientIDArgs{Verifier: nfs4.Verifier{verifier}, ID: []byte("c")}
				st, _ = g.raw(step{nfs4.OpSetClientID, &s, &res})
				return res, st
			}
			id, st := set(g, 1)
			require.Equal(t, nfs4.OK, st)
			confirm := step{nfs4.OpSetClientIDConfirm, &nfs4.SetClientIDConfirmArgs{ClientID: id.ClientID, Confirm: id.Confirm}, status()}
			h.peer.Security = other
			st, _ = h.raw(confirm)
			assert.Equal(t, nfs4.ErrClidInUse, st)
			st, _ = g.raw(confirm)
			require.Equal(t, nfs4.OK, st)
			g.raw(step{nfs4.OpRenew, &nfs4.ClientIDArgs{ClientID: id.ClientID}, status()})
		}
	}
	// A verified principal proves more than a certificate.
	g := newRig(t)
	g.peer.Security, g.cred = mine, rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5i, Principal: "host/a@R"}
	g.connect()
	g.peer.Security = nil
	_, st := g.exchange("client", 2, 0)
	assert.Equal(t, nfs4.OK, st)
}
