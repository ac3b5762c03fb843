package nfsserver

import (
	"testing"

	"github.com/stretchr/testify/require"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// BenchmarkCall measures the cost of a call in this package and below, but for
// storage, with a keeper of delegations that are never asked for.
func BenchmarkCall(b *testing.B) {
	k, err := delegserver.New(delegserver.Config{})
	require.NoError(b, err)
	defer k.Close()
	g, _, fh := scene(b, func(c *Config) { c.Grants = k })
	name, none := in(fh[vfs.TypeDir], "f"), in(fh[vfs.TypeDir], "none")
	for _, bb := range []struct {
		name string
		proc uint32
		args message
	}{
		{"GETATTR", nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: fh[vfs.TypeReg]}},
		{"LOOKUP", nfs3.ProcLookup, &name},
		{"LOOKUP of none", nfs3.ProcLookup, &none},
		{"ACCESS", nfs3.ProcAccess, &nfs3.AccessArgs{Object: fh[vfs.TypeReg], Access: 0x3f}},
		{"READ", nfs3.ProcRead, &nfs3.ReadArgs{File: fh[vfs.TypeReg], Count: 4096}},
		{"WRITE", nfs3.ProcWrite, &nfs3.WriteArgs{File: fh[vfs.TypeReg], Data: make([]byte, 4096)}},
		{"SETATTR", nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Object: fh[vfs.TypeReg]}},
		{"REMOVE of none", nfs3.ProcRemove, &none},
		{"READDIRPLUS", nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: fh[vfs.TypeDir], DirCount: 4096, MaxCount: 4096}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			wire := xdr.AppendFixed(bb.args.AppendTo(nil), itemOf(bb.args))
			cred := rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1000, GID: 100, GIDs: []uint32{100, 200}}
			call := oncrpc.Call{Proc: bb.proc, Cred: cred, Peer: g.peer, MaxReply: 1 << 20}
			program, rep, head := nfsProgram{g.server}, oncrpc.Reply{}, make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				call.Args, rep.Head = xdr.NewReader(wire), head
				if err := program.ServeRPC(b.Context(), &call, &rep); err != nil {
					b.Fatal(err)
				}
				rep.DropItem()
			}
		})
	}
}
