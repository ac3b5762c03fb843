package main

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/journal"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
)

// TestClientsOrders ends a client, and grace after a restart.
func TestClientsOrders(t *testing.T) {
	dir := t.TempDir()
	path, state := filepath.Join(dir, "control"), filepath.Join(dir, "state")
	start := func(t *testing.T) *testDaemon {
		return startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--control", path, "--state", state, t.TempDir()+"=/x")
	}
	order := func(args ...string) (code int, stdout, stderr string) {
		return runCommand(t, append([]string{"clients", "--control", path}, args...)...)
	}
	t.Run("a client", func(t *testing.T) {
		s := start(t)
		code, stdout, _ := order("--end-grace")
		assert.Equal(t, cli.ExitOK, code)
		assert.Equal(t, "there is no grace period\n", stdout)
		code, _, stderr := order("--expire", "77")
		assert.Equal(t, cli.ExitError, code)
		assert.Equal(t, "nfsrdmad: there is no client 0000000000000077: nfsrdmad clients lists them\n", stderr)
		code, _, stderr = order("--expire", "xyz")
		assert.Equal(t, cli.ExitUsage, code)
		assert.Contains(t, stderr, "first column of nfsrdmad clients")
		code, _, stderr = order("--expire", "77", "--end-grace")
		assert.Equal(t, cli.ExitUsage, code, stderr)

		c, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
		require.NoError(t, err)
		defer c.Close()
		var id nfs4.ExchangeIDRes
		callCompound(t, c, 1, nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte("plain")}, &id)
		code, stdout, stderr = order("--expire", fmt.Sprintf("%x", id.ClientID))
		assert.Equal(t, cli.ExitOK, code, stderr)
		assert.Equal(t, fmt.Sprintf("client %016x was discarded\n", id.ClientID), stdout)
	})

	// Two clients that may reclaim, which do not come.
	records := [][]byte{
		{1, 0, 0, 0, 7, 0, 0, 0x9c, 0x40},
		append([]byte{2, 0, 2, 2, 0, 0, 0, 1, 0, 0, 0, 0}, "one"...), append([]byte{2, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0}, "two"...),
	}
	j, _, err := journal.Open(state, "nfs4-clients", nfs4state.JournalHeader, nil)
	require.NoError(t, err)
	require.NoError(t, j.Append(records...))
	require.NoError(t, j.Close())
	start(t)
	n := getStatus(t, path).NFS4
	assert.Equal(t, [2]int{2, 2}, [2]int{n.Grace, n.Recorded})
	assert.InDelta(t, 45, n.GraceLeft, 10)
	code, stdout, _ := runCommand(t, "status", "--control", path)
	assert.Equal(t, cli.ExitOK, code)
	assert.Regexp(t, `(?m)^grace +2 clients may reclaim what they held before the restart, for at most \d+ s$`, stdout)
	code, stdout, stderr := order("--end-grace")
	assert.Equal(t, cli.ExitOK, code, stderr)
	assert.Equal(t, "the grace period has ended; clients that had not returned and lost what they held: 2\n", stdout)
	assert.Zero(t, getStatus(t, path).NFS4.Grace)
}
