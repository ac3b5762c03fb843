package main

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// callCompound makes a COMPOUND of one operation and returns its results.
func callCompound(t *testing.T, c net.Conn, xid uint32, op nfs4.Op, args, res nfs4.Message) {
	t.Helper()
	b := nfs4.AppendOp((&nfs4.CompoundArgs{Minor: nfs4.Minor2, N: 1}).AppendTo(nil), op, args)
	r := parseAccepted(t, tcpCall(t, c, encodeCall(xid, nfs4.Program, nfs4.Version, nfs4.ProcCompound, b)), xid, 0)
	var head nfs4.CompoundRes
	head.Decode(&r)
	require.Equal(t, nfs4.OK, head.Status)
	require.EqualValues(t, op, r.Uint32())
	res.Decode(&r)
	require.NoError(t, r.Done())
}

// TestClients checks the list of clients, in JSON and as a table: a client
// cannot write to the administrator's terminal by its name.
func TestClients(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--vers", "3,4.2", "--control", path, t.TempDir()+"=/x")
	code, stdout, _ := runCommand(t, "clients", "--control", path)
	assert.Equal(t, cli.ExitOK, code)
	assert.Equal(t, "no NFSv4 clients\n", stdout)

	c, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	hostile := "a\x1b[2J\nb\xff" + strings.Repeat("c", 900)
	callCompound(t, c, 1, nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte(hostile)}, new(nfs4.ExchangeIDRes))
	var id nfs4.ExchangeIDRes
	callCompound(t, c, 2, nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte("plain")}, &id)
	ch := nfs4.ChannelAttrs{MaxRequestSize: 1 << 20, MaxResponseSize: 1 << 20, MaxResponseSizeCached: 7584, MaxOperations: 16, MaxRequests: 8}
	callCompound(t, c, 3, nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID, Fore: ch, Back: ch}, new(nfs4.CreateSessionRes))

	code, stdout, stderr := runCommand(t, "clients", "--json", "--control", path)
	require.Equal(t, cli.ExitOK, code, stderr)
	var d report.ClientList
	require.NoError(t, json.Unmarshal([]byte(stdout), &d))
	assert.True(t, d.Served)
	assert.Equal(t, 2, d.Total)
	require.Len(t, d.Clients, 2)
	assert.Equal(t, "unconfirmed", d.Clients[0].State)
	assert.True(t, strings.HasPrefix(d.Clients[0].Owner, `"a\x1b[2J\nb\xff`))
	assert.True(t, strings.HasPrefix(d.Clients[0].OwnerHex, "611b5b324a0a62ff"))
	two := &d.Clients[1]
	assert.Equal(t, "plain", two.Owner)
	assert.Equal(t, "confirmed", two.State)
	assert.Equal(t, "tcp", two.Transport)
	assert.Equal(t, "4.2", two.Version)
	assert.Equal(t, "none", two.Principal)
	assert.Equal(t, []string{c.LocalAddr().String()}, two.Addresses)
	assert.Equal(t, []report.Session{{Slots: 8, Connections: 1}}, two.Sessions)

	code, stdout, stderr = runCommand(t, "clients", "--control", path)
	require.Equal(t, cli.ExitOK, code, stderr)
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	require.Len(t, lines, 3)
	assert.Contains(t, lines[1], `"a\x1b[2J\nb\xff`)
	assert.NotContains(t, stdout, "\x1b")
	assert.Less(t, len(lines[1]), 300)
	assert.Regexp(t, `plain +127\.0\.0\.1:\d+ +tcp +4\.2 +none +confirmed +1 +0/8 +0 +0 +0 +\d+ s`, lines[2])

	n := getStatus(t, path).NFS4
	require.NotNil(t, n)
	assert.Equal(t, [3]int{2, 1, 1}, [3]int{n.Clients, n.Unconfirmed, n.Sessions})
	assert.Positive(t, n.ReplyBytes)
	_, stdout, _ = runCommand(t, "status", "--control", path)
	assert.Contains(t, stdout, "1 clients, 1 sessions, 0 opens, 0 locks, 0 delegations (0 for writing)")
}
