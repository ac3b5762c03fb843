package nfsrdma

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A changer is a connection of a client that chooses its XIDs.
type changer struct {
	oncrpc.Caller
	close func() error
	root  nfs3.FH
}

// newChangers returns functions that connect to a server, by transport.
func newChangers(t *testing.T, r testServer) map[string]func() changer {
	root := nfs3.FH(nil)
	connected := func(line oncrpc.Caller, close func() error, err error) changer {
		require.NoError(t, err)
		t.Cleanup(func() { _ = close() })
		if root == nil {
			root, err = nfsclient.NewMount(line, nil).Mnt(t.Context(), "/a")
			require.NoError(t, err)
		}
		return changer{line, close, root}
	}
	return map[string]func() changer{
		"tcp": func() changer {
			c, err := oncrpc.DialTCP(t.Context(), r.tcp, oncrpc.ClientConfig{})
			return connected(c, c.Close, err)
		},
		"rdma": func() changer {
			c, err := rpcrdma.DialConn(context.Background(), iwarp.Open(iwarp.Config{}), r.rdma, rpcrdma.ClientConnConfig{})
			return connected(c, c.Close, err)
		},
	}
}

// makeChange calls MKDIR or RMDIR with an XID, always with the same name, and returns the
// status.
func (c changer) makeChange(t *testing.T, proc, xid uint32) nfs3.Status {
	t.Helper()
	where := nfs3.DirOpArgs{Dir: c.root, Name: []byte("lock")}
	args := where.AppendTo(nil)
	if proc == nfs3.ProcMkdir {
		args = (&nfs3.MkdirArgs{Where: where}).AppendTo(nil)
	}
	x := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version, Proc: proc, XID: xid, Args: args, MaxResults: 500}
	require.NoError(t, c.Call(t.Context(), &x))
	defer x.Release()
	return nfs3.Status(x.Results.Uint32())
}

// TestSameXIDs checks that a call is executed even if another client on the host has made
// the same call with the same XID, while both are connected.
func TestSameXIDs(t *testing.T) {
	r := startServer(t, ServerConfig{Exports: []nfsserver.Export{{Path: "/a", FS: mem.New(mem.Options{})}}})
	ways := newChangers(t, r)
	for _, first := range []string{"tcp", "rdma"} {
		for _, second := range []string{"tcp", "rdma"} {
			a, b := ways[first](), ways[second]()
			assert.Equal(t, nfs3.OK, a.makeChange(t, nfs3.ProcMkdir, 7))
			assert.Equal(t, nfs3.ErrExist, b.makeChange(t, nfs3.ProcMkdir, 7), "a has the lock")
			assert.Equal(t, nfs3.OK, a.makeChange(t, nfs3.ProcRmdir, 8))
			assert.Equal(t, nfs3.OK, ways[second]().makeChange(t, nfs3.ProcMkdir, 7), "executed: over %s after %s", second, first)
			assert.Equal(t, nfs3.OK, a.makeChange(t, nfs3.ProcRmdir, 9))
		}
	}
}

// TestRetransmission checks that a client that has lost its connection gets the reply to
// its call on a new one, from another port, over the same transport or the other.
func TestRetransmission(t *testing.T) {
	r := startServer(t, ServerConfig{Exports: []nfsserver.Export{{Path: "/a", FS: mem.New(mem.Options{})}}})
	ways := newChangers(t, r)
	for _, first := range []string{"tcp", "rdma"} {
		for _, second := range []string{"tcp", "rdma"} {
			a := ways[first]()
			assert.Equal(t, nfs3.OK, a.makeChange(t, nfs3.ProcMkdir, 7))
			assert.Equal(t, nfs3.OK, a.makeChange(t, nfs3.ProcMkdir, 7), "retransmitted on its connection")
			require.NoError(t, a.close())
			again := ways[second]()
			for range 2 {
				assert.Equal(t, nfs3.OK, again.makeChange(t, nfs3.ProcMkdir, 7), "over %s after %s", second, first)
			}
			assert.Equal(t, nfs3.OK, again.makeChange(t, nfs3.ProcRmdir, 8))
		}
	}
}
