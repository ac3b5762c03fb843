package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// TestServeMemory checks two file systems in memory over RDMA, each with its
// own limit.
func TestServeMemory(t *testing.T) {
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "", "mem:1MiB=/small", "mem:=/large")
	line, err := rpcrdma.Dial(context.Background(), iwarp.Open(iwarp.Config{}), s.transportAddr(t, "rdma"), rpcrdma.ClientConfig{})
	require.NoError(t, err)
	defer line.Close()
	c := nfsclient.New(line, nfsclient.Config{})
	data := bytes.Repeat([]byte("memory. "), 1<<17) // 1 MiB, which fills the small one
	for name, want := range map[string]error{"/small": nfs3.ErrNoSpc, "/large": nil} {
		root, err := nfsclient.NewMount(line, nil).Mnt(t.Context(), name)
		require.NoError(t, err)
		where := nfs3.DirOpArgs{Dir: root, Name: []byte("file")}
		made, err := c.Create(t.Context(), &nfs3.CreateArgs{Where: where, Mode: nfs3.Guarded})
		require.NoError(t, err)
		var at uint64
		for at < uint64(len(data)) && err == nil {
			var wrote nfs3.WriteRes
			wrote, err = c.Write(t.Context(), made.Object, at, data[at:], nfs3.Unstable)
			at += uint64(wrote.Count)
		}
		if want != nil {
			assert.ErrorIs(t, err, want, name)
		} else {
			require.NoError(t, err, name)
		}
		got := make([]byte, at)
		read, err := c.Read(t.Context(), made.Object, 0, got)
		require.NoError(t, err)
		assert.EqualValues(t, at, read.Count)
		assert.Equal(t, data[:at], got, name)
		_, err = c.Remove(t.Context(), root, "file")
		require.NoError(t, err)
	}
}
