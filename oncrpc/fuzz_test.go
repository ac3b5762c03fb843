package oncrpc

import (
	"encoding/binary"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/stretchr/testify/require"
)

// FuzzCall gives the mux arbitrary messages, with an item at an arbitrary
// position. It checks that every call is answered in the form of RFC 5531,
// Section 9, and that no buffer is left.
func FuzzCall(f *testing.F) {
	for _, file := range []string{"null-call", "getattr-call", "write-call", "authsys-call", "null-reply"} {
		f.Add(wiretest.Hex(f, "testdata/"+file+".hex"), -1, []byte(nil), 4096)
	}
	f.Add(echoCall(1, procEcho, nil)[:44], 44, []byte("moved"), 4096)
	f.Add(echoCall(1, procEcho, make([]byte, 100)), -1, []byte(nil), 100)
	m := echoMux()
	m.Register(nfs, 3, handlerFunc(serveEcho))
	m.Log = discardLogger()
	f.Fuzz(func(t *testing.T, msg []byte, pos int, item []byte, maxReply int) {
		req := &Request{Msg: msg, MaxReply: maxReply}
		if pos >= 12 { // before, the header itself cannot be read
			req.Item, req.ItemPos = item, pos
		}
		var rep Reply
		answer := m.Serve(t.Context(), req, &rep)
		isCall := len(msg) >= 12 && binary.BigEndian.Uint32(msg[4:]) == rpcmsg.MsgCall
		require.Equal(t, isCall, answer)
		if !answer {
			return
		}
		success := rep.Item != nil || rep.Len() > 32
		if success && rep.Len() > maxReply {
			t.Fatalf("reply of %d bytes, limit %d", rep.Len(), maxReply)
		}
		checkReplyForm(t, msg, bytesOf(&rep))
		require.Zero(t, buf.Default.Out())
	})
}

// checkReplyForm checks that a reply has the form of RFC 5531, Section 9.
func checkReplyForm(t *testing.T, msg, reply []byte) {
	r := xdr.NewReader(reply)
	require.Equal(t, binary.BigEndian.Uint32(msg), r.Uint32())
	require.EqualValues(t, rpcmsg.MsgReply, r.Uint32())
	if r.Uint32() == rpcmsg.MsgDenied {
		if r.Uint32() == rpcmsg.RPCMismatch {
			require.NotEqualValues(t, rpcmsg.Version, binary.BigEndian.Uint32(msg[8:]))
			r.Uint64()
		} else {
			stat := r.Uint32()
			require.True(t, stat >= 1 && stat <= 5)
		}
		require.NoError(t, r.Done())
		return
	}
	require.Zero(t, r.Uint64()) // verifier
	switch stat := r.Uint32(); stat {
	case rpcmsg.Success:
		r.Fixed(len(reply) - r.Offset())
	case rpcmsg.ProgMismatch:
		require.LessOrEqual(t, r.Uint32(), r.Uint32())
	default:
		require.LessOrEqual(t, stat, uint32(rpcmsg.SystemErr))
	}
	require.NoError(t, r.Done())
}
