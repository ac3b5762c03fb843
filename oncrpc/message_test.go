package oncrpc

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/xdr"
)

func TestReadCall(t *testing.T) {
	authSys := wiretest.Octets(t, "00000000 00000003 72696700 00000000 00000000 00000000")
	for _, tt := range []struct {
		file string
		want callHeader
		args int // octets behind the header
	}{
		{"null-call", callHeader{xid: 0xf984739a, prog: nfs, vers: 3, cred: opaqueAuth{body: []byte{}}, verf: opaqueAuth{body: []byte{}}}, 0},
		{"getattr-call", callHeader{xid: 0xfc84739a, prog: nfs, vers: 3, proc: 1, cred: opaqueAuth{AuthSys, authSys}, verf: opaqueAuth{body: []byte{}}}, 12},
		{"write-call", callHeader{xid: 0x0985739a, prog: nfs, vers: 3, proc: 7, cred: opaqueAuth{AuthSys, authSys}, verf: opaqueAuth{body: []byte{}}}, 44},
	} {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, "testdata/"+tt.file+".hex")
			r := xdr.NewReader(wire)
			h, err := readCall(&r)
			require.NoError(t, err)
			assert.Equal(t, tt.want, h)
			assert.Equal(t, tt.args, len(wire)-r.Offset())
			for n := range len(wire) - tt.args {
				r := xdr.NewReader(wire[:n])
				h, err := readCall(&r)
				if n < 12 {
					assert.ErrorIs(t, err, ErrNoAnswer, n)
					continue
				}
				assert.ErrorIs(t, err, xdr.ErrShort, n)
				assert.Equal(t, tt.want.xid, h.xid)
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
		{"REPLY", change(4, msgReply), ErrNoAnswer},
		{"neither CALL nor REPLY", change(4, 2), ErrNoAnswer},
		{"a captured reply", wiretest.Hex(t, "testdata/null-reply.hex"), ErrNoAnswer},
		{"RPC version 1", change(8, 1), errRPCVersion},
		{"RPC version 3", change(8, 3), errRPCVersion},
		{"cred of 400 octets", change(28, 400), nil},
		{"cred of 401 octets", change(28, 401), AuthBadCred},
		{"cred of all octets", change(28, 1<<32-1), AuthBadCred},
		{"verf of 400 octets", change(36, 400), nil},
		{"verf of 401 octets", change(36, 401), AuthBadVerf},
		{"RPC version only", change(8, 9)[:12], errRPCVersion},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := xdr.NewReader(tt.wire)
			_, err := readCall(&r)
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
		{"null-reply", appendAccepted(nil, xid, success)},
		{"prog-unavail", appendAccepted(nil, xid, progUnavail)},
		{"prog-mismatch", AppendProgMismatch(nil, xid, 2, 4)},
		{"proc-unavail", appendAccepted(nil, xid, procUnavail)},
		{"garbage-args", appendAccepted(nil, xid, garbageArgs)},
		{"system-err", appendAccepted(nil, xid, systemErr)},
		{"rpc-mismatch", appendRPCMismatch(nil, xid)},
		{"auth-tooweak", AppendAuthError(nil, xid, AuthTooWeak)},
	} {
		assert.Equal(t, wiretest.Hex(t, "testdata/"+tt.file+".hex"), tt.got, tt.file)
	}
	assert.Len(t, appendAccepted(nil, xid, success), acceptedLen)
}

// The results of a captured GETATTR, behind our header, give the captured
// reply.
func TestGetattrReply(t *testing.T) {
	want := wiretest.Hex(t, "testdata/getattr-reply.hex")
	var m Mux
	m.Register(nfs, 3, handlerFunc(func(_ context.Context, c *Call, r *Reply) error {
		assert.EqualValues(t, 1, c.Proc)
		assert.Equal(t, []byte{1, 0, 1, 0, 0, 0, 0, 0}, c.Args.Opaque(64))
		r.Head = append(r.Head, want[acceptedLen:]...)
		return c.Args.Done()
	}))
	var rep Reply
	require.True(t, m.Serve(t.Context(), &Request{Msg: wiretest.Hex(t, "testdata/getattr-call.hex"), MaxReply: 4096}, &rep))
	assert.Equal(t, want, rep.Head)
}
