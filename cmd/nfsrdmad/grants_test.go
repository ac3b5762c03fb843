package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// callAnonymously makes a call as nobody, and returns the exchange with its results.
func callAnonymously(t *testing.T, c *rpcrdma.ClientConn, prog, vers, proc uint32, args []byte) *oncrpc.Exchange {
	t.Helper()
	x := &oncrpc.Exchange{Prog: prog, Vers: vers, Proc: proc, Args: args, MaxResults: 1024}
	require.NoError(t, c.Call(t.Context(), x))
	return x
}

// TestGrantsShown checks that status shows the delegations of clients, and that
// these end with their connection.
func TestGrantsShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "", "--lease", "3s", "--exclusive", "--control", path, "mem:=/m")
	cfg, ends := newExtensionConfig(false)
	cfg.Delegation = true
	c, err := rpcrdma.DialConn(t.Context(), iwarp.Open(iwarp.Config{}), s.transportAddr(t, "rdma"), rpcrdma.ClientConnConfig{Extensions: cfg})
	require.NoError(t, err)
	receiveSoon(t, ends)
	require.True(t, c.ExtensionConn().Extensions().Delegation)

	var mnt mount3.MntRes
	x := callAnonymously(t, c, mount3.Program, mount3.Version, mount3.ProcMnt, (&mount3.PathArgs{Path: []byte("/m")}).AppendTo(nil))
	mnt.Decode(&x.Results)
	require.Equal(t, mount3.OK, mnt.Status)
	root := slices.Clone(mnt.Handle)
	x.Release()
	acquire := func(types delegation.Types) (res delegation.AcquireRes) {
		a := delegation.AcquireArgs{Handle: root, Types: types}
		x := callAnonymously(t, c, delegation.Program, delegation.Version, delegation.ProcAcquire, a.AppendTo(nil))
		defer x.Release()
		res.Decode(&x.Results)
		require.NoError(t, x.Results.Done())
		return res
	}
	res := acquire(delegation.Directory)
	require.Equal(t, delegation.StatusOK, res.Status)
	assert.EqualValues(t, 3000, res.LeaseMS)
	d := getStatus(t, path)
	assert.Equal(t, &report.Grants{LeaseSeconds: 3, InForce: 1, Granted: 1, RefusedBy: map[string]uint64{}, Parties: map[string]int{"127.0.0.1/32": 1}}, d.Grants)
	assert.Equal(t, 1, d.Connections[0].RDMA.Extensions.Grants)
	require.Equal(t, delegation.StatusRefused, acquire(delegation.Directory).Status, "it has one")
	code, stdout, _ := runCommand(t, "status", "--control", path)
	assert.Equal(t, cli.ExitOK, code)
	assert.Contains(t, stdout, "1 granted, 1 refused (held 1), 1 recalled")
	d = getStatus(t, path)
	assert.Equal(t, map[string]uint64{"held": 1}, d.Grants.RefusedBy)
	assert.Contains(t, stdout, "delegation1 ACQUIRE")
	assert.Contains(t, stdout, "REFUSED 1")
	assert.Contains(t, stdout, "delegation(")
	require.NoError(t, c.Close())
}

// TestNoGrants checks that status shows no delegations with --no-extensions.
func TestNoGrants(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "", "--no-extensions", "--control", path, "mem:=/m")
	assert.Nil(t, getStatus(t, path).Grants)
	code, _, stderr := runCommand(t, "serve", "--lease", "1ms", "mem:=/m")
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "--lease 1ms is not between 100ms and 5m0s")
}
