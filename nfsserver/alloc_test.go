package nfsserver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// TestAllocs: what clients do most costs no allocation on this floor, but for
// the name of LOOKUP, which a file system may keep.
func TestAllocs(t *testing.T) {
	g, _, fh := scene(t)
	name := in(fh[vfs.TypeDir], "a name that is too long for the stack to hold it")
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
			wire := xdr.AppendFixed(tt.args.AppendTo(nil), itemOf(tt.args))
			cred := oncrpc.Cred{Flavor: oncrpc.AuthSys, GIDs: []uint32{0, 1, 2}}
			call := oncrpc.Call{Proc: tt.proc, Cred: cred, Peer: g.peer, MaxReply: 1 << 20}
			var rep oncrpc.Reply
			var err error
			program, head := nfsProgram{g.server}, make([]byte, 0, 512)
			allocs := testing.AllocsPerRun(100, func() {
				call.Args = xdr.NewReader(wire)
				rep.Head = head
				err = program.ServeRPC(t.Context(), &call, &rep)
				rep.DropItem()
			})
			require.NoError(t, err)
			assert.LessOrEqual(t, allocs, tt.want)
		})
	}
}
