package nfs4server

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// TestClients checks the administrator's view of clients: names with any bytes, connections,
// sessions and opens.
func TestClients(t *testing.T) {
	g := newTestServer(t).connectAs("first \x00\xff").becomeRoot()
	g.makeFile("f", "content")
	_, _, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	g.minor = nfs4.Minor1
	st, _ = g.sendRaw(step{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte("second")}, new(nfs4.ExchangeIDRes)})
	require.Equal(t, nfs4.OK, st)

	list, all := g.s.Clients(10)
	assert.Equal(t, 2, all)
	require.Len(t, list, 2)
	one, two := list[0], list[1]
	assert.Equal(t, "first \x00\xff", one.Owner)
	assert.Equal(t, []netip.AddrPort{g.peer.Addr}, one.Addrs)
	assert.Equal(t, nfs4state.TCP, one.Transport)
	assert.Equal(t, nfs4.Minor2, one.Minor)
	assert.EqualValues(t, rpcmsg.AuthSys, one.Principal.Flavor)
	assert.True(t, one.Confirmed)
	assert.False(t, one.Courtesy)
	assert.Equal(t, 1, one.Opens)
	require.Len(t, one.Sessions, 1)
	assert.Equal(t, 8, one.Sessions[0].Slots)
	assert.Zero(t, one.Sessions[0].Running)
	assert.Equal(t, "second", two.Owner)
	assert.Equal(t, nfs4.Minor1, two.Minor)
	assert.False(t, two.Confirmed)
	assert.Empty(t, two.Sessions)

	list, all = g.s.Clients(1)
	assert.Len(t, list, 1)
	assert.Equal(t, 2, all)
	n := g.s.Counts()
	assert.Equal(t, [4]int{2, 1, 1, 1}, [4]int{n.Clients, n.Unconfirmed, n.Sessions, n.Opens})
	assert.Positive(t, n.Replies)
	assert.Greater(t, n.MaxReplies, n.Replies)
}
