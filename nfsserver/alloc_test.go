package nfsserver

import (
	"testing"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// countAllocs returns how many allocations a call costs in this package.
func (g *testServer) countAllocs(proc uint32, args message) float64 {
	g.t.Helper()
	wire := xdr.AppendFixed(args.AppendTo(nil), dataItem(args))
	cred := rpcmsg.Cred{Flavor: rpcmsg.AuthSys, GIDs: []uint32{0, 1, 2}}
	call := oncrpc.Call{Proc: proc, Cred: cred, Peer: g.peer, MaxReply: 1 << 20}
	var rep oncrpc.Reply
	var err error
	program, head := nfsProgram{g.server}, make([]byte, 0, 512)
	n := testing.AllocsPerRun(100, func() {
		call.Args = xdr.NewReader(wire)
		rep.Head = head
		err = program.ServeRPC(g.t.Context(), &call, &rep)
		rep.DropItem()
	})
	require.NoError(g.t, err)
	return n
}

// TestAllocs checks that the most frequent calls allocate nothing in this package, except the
// name in LOOKUP, which a file system may keep.
func TestAllocs(t *testing.T) {
	g, _, fh := newScene(t)
	name := dirOpArgs(fh[vfs.TypeDir], "a name that is too long for the stack to hold it")
	for _, tt := range []struct {
		proc uint32
		args message
		want float64
	}{
		{nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh[vfs.TypeReg]}, 0},
		{nfs3.ProcLookup, &name, 1},
		{nfs3.ProcAccess, &nfs3.AccessArgs{Object: fh[vfs.TypeReg], Access: 0x3f}, 0},
		{nfs3.ProcRead, &nfs3.ReadArgs{File: fh[vfs.TypeReg], Count: 4096}, 0},
		{nfs3.ProcWrite, &nfs3.WriteArgs{File: fh[vfs.TypeReg], Data: make([]byte, 4096)}, 0},
	} {
		t.Run(nfs3.ProcName(tt.proc), func(t *testing.T) {
			assert.LessOrEqual(t, g.countAllocs(tt.proc, tt.args), tt.want)
		})
	}
}

// TestAllocsWithGrants checks that changes cost no more if clients could hold delegations of
// the objects but do not.
func TestAllocsWithGrants(t *testing.T) {
	k, err := delegserver.New(delegserver.Config{})
	require.NoError(t, err)
	defer k.Close()
	none := newTestServer(t, newMemFS())
	with := newTestServer(t, newMemFS(), func(c *Config) { c.Grants = k })
	for proc, args := range map[uint32]func(fh nfs3.FH) message{
		nfs3.ProcWrite:   func(fh nfs3.FH) message { return &nfs3.WriteArgs{File: fh, Data: make([]byte, 4096)} },
		nfs3.ProcSetAttr: func(fh nfs3.FH) message { return &nfs3.SetAttrArgs{Object: fh} },
		nfs3.ProcRemove: func(nfs3.FH) message {
			name := dirOpArgs(none.handleOf(memRoot), "no")
			return &name
		},
		nfs3.ProcMkdir: func(nfs3.FH) message { return &nfs3.MkdirArgs{Where: dirOpArgs(none.handleOf(memRoot), "f")} },
		nfs3.ProcRename: func(nfs3.FH) message {
			return &nfs3.RenameArgs{From: dirOpArgs(none.handleOf(memRoot), "no"), To: dirOpArgs(none.handleOf(memRoot), "f")}
		},
	} {
		t.Run(nfs3.ProcName(proc), func(t *testing.T) {
			assert.LessOrEqual(t, with.countAllocs(proc, args(with.makeFile("f", nil))), none.countAllocs(proc, args(none.makeFile("f", nil))))
		})
	}
}
