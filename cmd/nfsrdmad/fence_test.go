package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/journal"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A fakeReturningClient returns every recalled delegation.
type fakeReturningClient struct{ link *rpcrdma.ExtensionConn }

func (g fakeReturningClient) Immediate(word [8]byte) {
	word[0] = byte(delegation.KindReturned)
	_ = g.link.PostImmediate(word, nil, 0) // the connection may have ended
}

func (fakeReturningClient) Closed(error) {}

// dialDelegating returns a client with delegation counters, and the root's handle.
func dialDelegating(t *testing.T, p *daemonProc) (*rpcrdma.ClientConn, nfs3.FH) {
	t.Helper()
	cfg := rpcrdma.ExtensionConfig{
		ImmediateRecvs: 4, Atomics: true, Delegation: true,
		Attach: func(l *rpcrdma.ExtensionConn) rpcrdma.ExtensionHandler { return fakeReturningClient{l} },
	}
	c, err := rpcrdma.DialConn(t.Context(), iwarp.Open(iwarp.Config{}), p.transportAddr(t, "rdma"), rpcrdma.ClientConnConfig{Extensions: &cfg})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	_, root, _ := mountFile(t, c)
	return c, root
}

// callForStatus makes a call and returns the first two words of its results; the first
// is a status.
func callForStatus(t *testing.T, c *rpcrdma.ClientConn, prog, vers, proc uint32, args []byte) (status, next uint32) {
	t.Helper()
	x := &oncrpc.Exchange{Prog: prog, Vers: vers, Proc: proc, Args: args, MaxResults: 1024, Cred: nfsclient.ProcessCred()}
	require.NoError(t, c.Call(t.Context(), x))
	defer x.Release()
	return x.Results.Uint32(), x.Results.Uint32()
}

// TestRestartFenced checks a daemon that was killed while a client held a
// delegation: after the restart, changes wait for the lease of that delegation,
// and reads do not. A daemon that ends gracefully leaves no record.
func TestRestartFenced(t *testing.T) {
	state, control := t.TempDir(), filepath.Join(t.TempDir(), "control")
	args := []string{"--state", state, "--control", control, "--exclusive", "--lease"}
	acquire := func(c *rpcrdma.ClientConn, root nfs3.FH) (uint32, uint32) {
		a := delegation.AcquireArgs{Handle: root, Types: delegation.Directory}
		return callForStatus(t, c, delegation.Program, delegation.Version, delegation.ProcAcquire, a.AppendTo(nil))
	}
	touch := func(c *rpcrdma.ClientConn, root nfs3.FH) nfs3.Status {
		a := nfs3.SetAttrArgs{Object: root}
		res, _ := callForStatus(t, c, nfs3.Program, nfs3.Version, nfs3.ProcSetAttr, a.AppendTo(nil))
		return nfs3.Status(res)
	}

	p := startProc(t, slices.Concat(args, []string{"3s"})...)
	c, root := dialDelegating(t, p)
	require.Equal(t, nfs3.OK, touch(c, root))
	assert.Zero(t, recordedLease(t, state), "no delegation is held")
	res, _ := acquire(c, root)
	require.Zero(t, res)
	require.Equal(t, 3*time.Second, recordedLease(t, state))
	require.NoError(t, p.cmd.Process.Kill())
	p.waitExit()
	killed := time.Now()

	for _, more := range [][]string{{"1s"}, {"1s", "--no-extensions"}} {
		p = startProc(t, slices.Concat(args, more)...)
		c, err := rpcrdma.DialConn(t.Context(), iwarp.Open(iwarp.Config{}), p.transportAddr(t, "rdma"), rpcrdma.ClientConnConfig{})
		require.NoError(t, err)
		_, root, _ := mountFile(t, c)
		assert.Equal(t, nfs3.ErrJukebox, touch(c, root))
		left := getStatus(t, control).Grants.WaitSeconds
		assert.Greater(t, left, 0.0)
		assert.LessOrEqual(t, left, 3.0)
		require.NoError(t, c.Close())
		require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
		p.waitExit()
		assert.Equal(t, 3*time.Second, recordedLease(t, state), "it has not waited the full lease")
	}

	p = startProc(t, slices.Concat(args, []string{"1s"})...)
	c, root = dialDelegating(t, p)
	res, why := acquire(c, root)
	assert.Equal(t, uint32(delegation.StatusRefused), res)
	assert.Equal(t, uint32(delegation.ReasonLimit), why)
	code, stdout, _ := runCommand(t, "status", "--control", control)
	assert.Equal(t, cli.ExitOK, code)
	assert.Contains(t, stdout, "changes wait for another ")
	require.Eventually(t, func() bool { return touch(c, root) == nfs3.OK }, time.Minute, 10*time.Millisecond)
	assert.Greater(t, time.Since(killed), 3*time.Second)
	res, _ = acquire(c, root)
	require.Zero(t, res)
	require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
	p.waitExit()
	assert.Zero(t, recordedLease(t, state), "the client has returned it")
}

// recordedLease returns the lease of delegations in a state directory's list of clients.
func recordedLease(t *testing.T, state string) time.Duration {
	t.Helper()
	copied := t.TempDir() // the daemon has locked the list
	b, err := os.ReadFile(filepath.Join(state, "nfs4-clients"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(copied, "list"), b, 0o600))
	j, found, err := journal.Open(copied, "list", nfs4state.JournalHeader, nil)
	require.NoError(t, err)
	require.NoError(t, j.Close())
	past, err := nfs4state.ReadPast(found.Records)
	require.NoError(t, err)
	return past.Counters
}
