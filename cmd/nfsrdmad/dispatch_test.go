package main

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// BenchmarkDispatch measures calls for a file on the host from the daemon's outermost service on,
// with everything that counts them, but without a transport: without a tenure, and with one.
func BenchmarkDispatch(b *testing.B) {
	benchmarkDispatch(b, nil)
	word := tenure.Now() + int64(time.Hour)
	b.Run("tenure", func(b *testing.B) { benchmarkDispatch(b, tenure.New(&word)) })
}

func benchmarkDispatch(b *testing.B, held *tenure.Tenure) {
	dir := b.TempDir()
	require.NoError(b, os.WriteFile(filepath.Join(dir, "f"), make([]byte, 64<<10), 0o644))
	fs, err := posix.Open(dir, posix.Options{StateDir: b.TempDir()})
	require.NoError(b, err)
	defer fs.Close()
	var p runningDaemon
	server, err := nfsrdma.NewServer(nfsrdma.ServerConfig{
		Exports: []nfsserver.Export{{Path: "/x", FS: fs}}, Log: slog.New(slog.DiscardHandler),
		Wrap: p.wrapReplies, Tenure: held,
	})
	require.NoError(b, err)
	defer server.Close()
	service := server.Parts().TCP.Handler

	rep := &oncrpc.Reply{Head: make([]byte, 0, 1024)}
	peer := &oncrpc.Peer{Network: "tcp", Addr: netip.MustParseAddrPort("192.0.2.1:700"), Conn: new(oncrpc.Connection)}
	req := &oncrpc.Request{Peer: peer, MaxReply: 1 << 20, MaxWhole: 1 << 20}
	serve := func(msg []byte) xdr.Reader {
		req.Msg = msg
		*rep = oncrpc.Reply{Head: rep.Head[:0]}
		service.Serve(b.Context(), req, rep)
		rep.DropItem()
		return xdr.NewReader(rep.Head[rpcmsg.AcceptedLen:])
	}
	newCall := func(prog, vers, proc uint32, args []byte) []byte {
		cred := xdr.AppendUint32(nil, 0)                // stamp
		cred = xdr.AppendOpaque(cred, []byte("client")) // machinename
		for _, w := range []uint32{1000, 100, 1, 100} { // uid, gid, gids
			cred = xdr.AppendUint32(cred, w)
		}
		var msg []byte
		for _, w := range []uint32{1, rpcmsg.MsgCall, rpcmsg.Version, prog, vers, proc, rpcmsg.AuthSys} {
			msg = xdr.AppendUint32(msg, w)
		}
		msg = xdr.AppendOpaque(msg, cred)
		msg = append(msg, make([]byte, 8)...) // verifier
		return append(msg, args...)
	}
	r := serve(newCall(mount3.Program, mount3.Version, mount3.ProcMnt, (&mount3.PathArgs{Path: []byte("/x")}).AppendTo(nil)))
	require.Zero(b, r.Uint32())
	root := append(nfs3.FH(nil), r.Opaque(64)...)
	r = serve(newCall(nfs3.Program, nfs3.Version, nfs3.ProcLookup, (&nfs3.DirOpArgs{Dir: root, Name: []byte("f")}).AppendTo(nil)))
	require.Zero(b, r.Uint32())
	file := append(nfs3.FH(nil), r.Opaque(64)...)
	require.NoError(b, r.Err())

	compound := []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2} // no tag, minor version 0
	compound = xdr.AppendOpaque(xdr.AppendUint32(compound, uint32(nfs4.OpPutFH)), file)
	compound = xdr.AppendUint32(compound, uint32(nfs4.OpGetAttr))
	for _, w := range []uint32{2, 0x0010011a, 0x00b0a23a} { // as Linux does
		compound = xdr.AppendUint32(compound, w)
	}
	for _, bb := range []struct {
		name string
		msg  []byte
	}{
		{"GETATTR", newCall(nfs3.Program, nfs3.Version, nfs3.ProcGetAttr, (&nfs3.HandleArgs{Object: file}).AppendTo(nil))},
		{"READ 4 KiB", newCall(nfs3.Program, nfs3.Version, nfs3.ProcRead, (&nfs3.ReadArgs{File: file, Count: 4096}).AppendTo(nil))},
		{"NFSv4 GETATTR", newCall(nfs4.Program, nfs4.Version, nfs4.ProcCompound, compound)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r := serve(bb.msg); r.Uint32() != 0 {
					b.Fatal("the call failed")
				}
			}
		})
	}
}
