package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// TestLocalWriter checks that a local process that opens a file for writing
// waits until the client has returned its delegation of the file's data.
func TestLocalWriter(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o666))
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "", dir+"=/x")
	cfg, ends := newExtensionConfig(false)
	cfg.Delegation = true
	c, err := rpcrdma.DialConn(t.Context(), iwarp.Open(iwarp.Config{}), s.transportAddr(t, "rdma"), rpcrdma.ClientConnConfig{Extensions: cfg})
	require.NoError(t, err)
	defer c.Close()
	end := receiveSoon(t, ends)

	var mnt mount3.MntRes
	x := callAnonymously(t, c, mount3.Program, mount3.Version, mount3.ProcMnt, (&mount3.PathArgs{Path: []byte("/x")}).AppendTo(nil))
	defer x.Release()
	mnt.Decode(&x.Results)
	require.Equal(t, mount3.OK, mnt.Status)
	var found nfs3.LookupRes
	x = callAnonymously(t, c, nfs3.Program, nfs3.Version, nfs3.ProcLookup, (&nfs3.DirOpArgs{Dir: mnt.Handle, Name: []byte("f")}).AppendTo(nil))
	defer x.Release()
	found.Decode(&x.Results)
	require.Equal(t, nfs3.OK, found.Status)
	var res delegation.AcquireRes
	a := delegation.AcquireArgs{Handle: found.Object, Types: delegation.FileData | delegation.FileAttributes}
	x = callAnonymously(t, c, delegation.Program, delegation.Version, delegation.ProcAcquire, a.AppendTo(nil))
	defer x.Release()
	res.Decode(&x.Results)
	if res.Status == delegation.StatusRefused && res.Reason == delegation.ReasonTypes {
		t.Skip("the file system here does not support leases")
	}
	require.Equal(t, delegation.StatusOK, res.Status, res.Reason)
	assert.Equal(t, delegation.FileData, res.Types)

	written := make(chan error, 1)
	go func() { written <- os.WriteFile(file, []byte("new"), 0o666) }()
	word := receiveSoon(t, end.got)
	m, err := delegation.ParseImmediate(word, delegation.KindRecall)
	require.NoError(t, err)
	assert.Equal(t, delegation.Immediate{Kind: delegation.KindRecall, Slot: res.Slot, Generation: res.Generation}, m)
	select {
	case err := <-written:
		require.Fail(t, "it has not waited", "%v", err)
	case <-time.After(20 * time.Millisecond): // long enough for a write that does not wait
	}
	m.Kind = delegation.KindReturned
	require.NoError(t, end.link.PostImmediate(m.Bytes(), nil, 0))
	require.NoError(t, receiveSoon(t, written))
}
