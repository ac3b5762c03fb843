package replay

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/stretchr/testify/require"
)

// FuzzReplay gives the cache an arbitrary message twice, with an item at an
// arbitrary position. It checks that the second call gets the bytes of the
// first reply without an execution, and that its key equals the key of the same
// message with the item in place.
func FuzzReplay(f *testing.F) {
	for _, file := range []string{"null-call", "getattr-call", "write-call", "authsys-call", "null-reply"} {
		f.Add(wiretest.Hex(f, "../testdata/"+file+".hex"), -1, []byte(nil))
	}
	f.Add(echoCall(1, procEcho, nil)[:44], 44, []byte("moved"))
	f.Add(rpctest.NewCall(1, rpctest.Program, 2, procMake, 0, 0, 0, 5, 0, 0, 0, 1), 44, []byte("moved"))
	f.Fuzz(func(t *testing.T, msg []byte, pos int, item []byte) {
		m := new(countingProgram)
		mux := echoMux()
		mux.Register(rpctest.NFS, 3, m)
		mux.Log = discardLogger()
		c := New(mux, Config{Keep: func(p rpcmsg.Procedure, _ []byte) bool { return p.Prog == rpctest.NFS }})
		defer c.Close()
		req := &oncrpc.Request{Msg: msg, Peer: &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:700")}, MaxReply: 4096}
		if pos >= 0 {
			req.Item, req.ItemPos = slices.Clip(item), pos
		}
		first := answerOf(c, t.Context(), req)
		executed := m.executed
		require.Equal(t, first, answerOf(c, t.Context(), req))
		p, ok := rpcmsg.ProcedureOf(msg)
		if !ok || p.Prog != rpctest.NFS {
			require.Zero(t, c.Stats().Executed)
			return
		}
		require.Equal(t, pos >= 0 && pos < 12, first == nil, "an item in the words that decide on an answer")
		require.Equal(t, executed, m.executed)
		checkStore(t, c)
		require.Zero(t, buf.Default.Out())
		if pos >= 24 && pos <= len(msg) {
			woven := append(bytes.Clone(msg[:pos]), xdr.AppendFixed(nil, item)...)
			whole := &oncrpc.Request{Msg: append(woven, msg[pos:]...), Peer: req.Peer}
			require.Equal(t, c.keyOf(whole, p), c.keyOf(req, p))
		}
	})
}
