package nfsserver

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/vfs/posix"

	"github.com/stretchr/testify/require"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// BenchmarkCall measures a call's cost in this package and below, except for storage, with a
// keeper whose delegations are never requested.
func BenchmarkCall(b *testing.B) {
	k, err := delegserver.New(delegserver.Config{})
	require.NoError(b, err)
	defer k.Close()
	g, _, fh := newScene(b, func(c *Config) { c.Grants = k })
	name, none := dirOpArgs(fh[vfs.TypeDir], "f"), dirOpArgs(fh[vfs.TypeDir], "none")
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
			wire := xdr.AppendFixed(bb.args.AppendTo(nil), dataItem(bb.args))
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

// BenchmarkChange measures CREATE and REMOVE, and WRITE, for files on the host while nothing is
// delegated, and while 1,000 other files are.
func BenchmarkChange(b *testing.B) {
	for name, holders := range map[string]int{"nothing delegated": 0, "1,000 others delegated": 1000} {
		now := time.Duration(0)
		table := recall.New(recall.Config{Now: func() time.Duration { return now }})
		for i := range holders {
			h := &recall.Holder{Recall: func(recall.Changer) {}}
			require.True(b, table.Hold(h, []byte{byte(i), byte(i >> 8)}) && h.Confirm())
		}
		g := newPosixServer(b, b.TempDir(), posix.Options{}, func(c *Config) { c.Holders = table })
		root := append(nfs3.FH{}, g.callMnt("/x").Handle...)
		file, made, removed := g.createFile(root, "file"), nfs3.MakeRes{}, nfs3.WccRes{}
		create, remove := nfs3.CreateArgs{Where: dirOpArgs(root, "f"), Mode: nfs3.Unchecked}, dirOpArgs(root, "f")
		b.Run("CREATE and REMOVE/"+name, func(b *testing.B) {
			for b.Loop() {
				g.callNFS(nfs3.ProcCreate, &create, &made)
				g.callNFS(nfs3.ProcRemove, &remove, &removed)
			}
			require.Equal(b, nfs3.OK, removed.Status)
		})
		write, written := nfs3.WriteArgs{File: file, Data: make([]byte, 4096)}, nfs3.WriteRes{}
		b.Run("WRITE/"+name, func(b *testing.B) {
			for b.Loop() {
				g.callNFS(nfs3.ProcWrite, &write, &written)
			}
			require.Equal(b, nfs3.OK, written.Status)
		})
	}
}
