package oncrpc

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadCall(t *testing.T) {
	authSys := wiretest.Bytes(t, "00000000 00000003 72696700 00000000 00000000 00000000")
	for _, tt := range []struct {
		file string
		want rpcmsg.CallHeader
		args int // bytes after the header
	}{
		{"null-call", rpcmsg.CallHeader{XID: 0xf984739a, Prog: nfs, Vers: 3, Cred: rpcmsg.OpaqueAuth{Body: []byte{}}, Verf: rpcmsg.OpaqueAuth{Body: []byte{}}}, 0},
		{"getattr-call", rpcmsg.CallHeader{XID: 0xfc84739a, Prog: nfs, Vers: 3, Proc: 1, Cred: rpcmsg.OpaqueAuth{Flavor: rpcmsg.AuthSys, Body: authSys}, Verf: rpcmsg.OpaqueAuth{Body: []byte{}}}, 12},
		{"write-call", rpcmsg.CallHeader{XID: 0x0985739a, Prog: nfs, Vers: 3, Proc: 7, Cred: rpcmsg.OpaqueAuth{Flavor: rpcmsg.AuthSys, Body: authSys}, Verf: rpcmsg.OpaqueAuth{Body: []byte{}}}, 44},
	} {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, "testdata/"+tt.file+".hex")
			r := xdr.NewReader(wire)
			h, err := rpcmsg.ReadCall(&r)
			require.NoError(t, err)
			assert.Equal(t, tt.want, h)
			assert.Equal(t, tt.args, len(wire)-r.Offset())
			for n := range len(wire) - tt.args {
				r := xdr.NewReader(wire[:n])
				h, err := rpcmsg.ReadCall(&r)
				if n < 12 {
					assert.ErrorIs(t, err, ErrNoAnswer, n)
					continue
				}
				assert.ErrorIs(t, err, xdr.ErrShort, n)
				assert.Equal(t, tt.want.XID, h.XID)
			}
		})
	}
}

func TestReadCallErrors(t *testing.T) {
	null := wiretest.Hex(t, "testdata/null-call.hex")
	change := func(off int, v uint32) []byte {
		b := append([]byte(nil), null...)
		binary.BigEndian.PutUint32(b[off:], v)
		return append(b, make([]byte, 500)...)
	}
	for _, tt := range []struct {
		name string
		wire []byte
		want error
	}{
		{"REPLY", change(4, rpcmsg.MsgReply), ErrNoAnswer},
		{"neither CALL nor REPLY", change(4, 2), ErrNoAnswer},
		{"a captured reply", wiretest.Hex(t, "testdata/null-reply.hex"), ErrNoAnswer},
		{"RPC version 1", change(8, 1), rpcmsg.ErrVersion},
		{"RPC version 3", change(8, 3), rpcmsg.ErrVersion},
		{"cred of 400 bytes", change(28, 400), nil},
		{"cred of 401 bytes", change(28, 401), rpcmsg.AuthBadCred},
		{"cred of all bytes", change(28, 1<<32-1), rpcmsg.AuthBadCred},
		{"verf of 400 bytes", change(36, 400), nil},
		{"verf of 401 bytes", change(36, 401), rpcmsg.AuthBadVerf},
		{"RPC version only", change(8, 9)[:12], rpcmsg.ErrVersion},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := xdr.NewReader(tt.wire)
			_, err := rpcmsg.ReadCall(&r)
			assert.ErrorIs(t, err, tt.want)
		})
	}
}

func TestAppendReplies(t *testing.T) {
	const xid = 0xf984739a
	for _, tt := range []struct {
		file string
		got  []byte
	}{
		{"null-reply", rpcmsg.AppendAccepted(nil, xid, rpcmsg.Success)},
		{"prog-unavail", rpcmsg.AppendAccepted(nil, xid, rpcmsg.ProgUnavail)},
		{"prog-mismatch", rpcmsg.AppendProgMismatch(nil, xid, 2, 4)},
		{"proc-unavail", rpcmsg.AppendAccepted(nil, xid, rpcmsg.ProcUnavail)},
		{"garbage-args", rpcmsg.AppendAccepted(nil, xid, rpcmsg.GarbageArgs)},
		{"system-err", rpcmsg.AppendAccepted(nil, xid, rpcmsg.SystemErr)},
		{"rpc-mismatch", rpcmsg.AppendRPCMismatch(nil, xid)},
		{"auth-tooweak", rpcmsg.AppendAuthError(nil, xid, rpcmsg.AuthTooWeak)},
	} {
		assert.Equal(t, wiretest.Hex(t, "testdata/"+tt.file+".hex"), tt.got, tt.file)
	}
	assert.Len(t, rpcmsg.AppendAccepted(nil, xid, rpcmsg.Success), rpcmsg.AcceptedLen)
}

// TestGetattrReply checks that our header followed by the results of a captured
// GETATTR equals the captured reply.
func TestGetattrReply(t *testing.T) {
	want := wiretest.Hex(t, "testdata/getattr-reply.hex")
	var m Mux
	m.Register(nfs, 3, handlerFunc(func(_ context.Context, c *Call, r *Reply) error {
		assert.EqualValues(t, 1, c.Proc)
		assert.Equal(t, []byte{1, 0, 1, 0, 0, 0, 0, 0}, c.Args.Opaque(64))
		r.Head = append(r.Head, want[rpcmsg.AcceptedLen:]...)
		return c.Args.Done()
	}))
	var rep Reply
	require.True(t, m.Serve(t.Context(), &Request{Msg: wiretest.Hex(t, "testdata/getattr-call.hex"), MaxReply: 4096}, &rep))
	assert.Equal(t, want, rep.Head)
}
