package oncrpc

import (
	"context"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAppendCall(t *testing.T) {
	many := make([]uint32, 20)
	for i := range many {
		many[i] = uint32(i) + 1
	}
	many[15] = 1<<32 - 1
	for _, tt := range []struct {
		file    string
		xid     uint32
		x       Exchange
		machine string
	}{
		{"null-call", 0xf984739a, Exchange{Prog: nfs, Vers: 3}, ""},
		{"getattr-call", 0xfc84739a, Exchange{Prog: nfs, Vers: 3, Proc: 1, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys}}, "rig"},
		{"authsys-call", 0x01020304, Exchange{
			Prog: nfs, Vers: 3, Proc: 1,
			Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1000, GID: 100, GIDs: many},
		}, "krypton"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			want := wiretest.Hex(t, "testdata/"+tt.file+".hex")
			got := AppendCall(nil, tt.xid, &tt.x, tt.machine)
			if tt.file == "authsys-call" { // its stamp may be anything, ours is 0
				copy(want[32:36], got[32:36])
			}
			assert.Equal(t, want[:len(got)], got)

			r := xdr.NewReader(got)
			_, err := rpcmsg.ReadCall(&r)
			require.NoError(t, err)
			assert.NoError(t, r.Done())
		})
	}
	long := AppendCall(nil, 1, &Exchange{Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, GIDs: many}}, string(make([]byte, 300)))
	r := xdr.NewReader(long)
	h, err := rpcmsg.ReadCall(&r)
	require.NoError(t, err)
	_, err = rpcmsg.DecodeAuthSys(h.Cred.Body, new([rpcmsg.MaxGIDs]uint32))
	assert.NoError(t, err, "cut to what may be sent")
}

func TestReadReply(t *testing.T) {
	const xid = 0xf984739a
	for _, tt := range []struct {
		file string
		is   error
		as   error
	}{
		{"null-reply", nil, nil},
		{"prog-unavail", ErrProgUnavail, &ReplyError{Stat: rpcmsg.ProgUnavail}},
		{"prog-mismatch", nil, &ReplyError{Stat: rpcmsg.ProgMismatch, Low: 2, High: 4}},
		{"proc-unavail", ErrProcUnavail, &ReplyError{Stat: rpcmsg.ProcUnavail}},
		{"garbage-args", ErrGarbageArgs, &ReplyError{Stat: rpcmsg.GarbageArgs}},
		{"system-err", nil, &ReplyError{Stat: rpcmsg.SystemErr}},
		{"rpc-mismatch", errReply, nil},
		{"auth-tooweak", rpcmsg.AuthTooWeak, rpcmsg.AuthTooWeak},
	} {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, "testdata/"+tt.file+".hex")
			r := xdr.NewReader(wire)
			err := ReadReply(&r, xid)
			if tt.as != nil {
				assert.Equal(t, tt.as, err)
			}
			if tt.is != nil || tt.as == nil {
				assert.ErrorIs(t, err, tt.is)
			}
			if err != nil {
				assert.NotEmpty(t, err.Error())
			}
			for n := range wire { // cut at every byte
				r := xdr.NewReader(wire[:n])
				assert.ErrorIs(t, ReadReply(&r, xid), errReply, n)
			}
			r = xdr.NewReader(wire)
			assert.ErrorIs(t, ReadReply(&r, xid+1), errReply, "another call's")
		})
	}
	for _, wire := range []string{
		"f984739a 00000000 00000000 00000000 00000000 00000000",                                 // CALL
		"f984739a 00000001 00000002 00000000 00000000 00000000",                                 // reply_stat 2
		"f984739a 00000001 00000000 00000000 00000191",                                          // verifier of 401
		"f984739a 00000001 00000001 00000002 00000000",                                          // reject_stat 2
		"f984739a 00000001 00000000 00000001 ffffffff 00000000 00000000 00000000 00000000 0000", // verifier longer than the message
	} {
		r := xdr.NewReader(wiretest.Bytes(t, wire))
		assert.ErrorIs(t, ReadReply(&r, xid), errReply, wire)
	}
}

// TestReadReplyUndefinedStat checks that an undefined accept_stat is a
// ReplyError: the server has not executed the procedure.
func TestReadReplyUndefinedStat(t *testing.T) {
	r := xdr.NewReader(wiretest.Bytes(t, "00000001 00000001 00000000 00000000 00000000 00000006"))
	err := ReadReply(&r, 1)
	assert.Equal(t, &ReplyError{Stat: 6}, err)
	assert.ErrorContains(t, err, "undefined accept_stat 6")
	for _, other := range []error{ErrProgUnavail, ErrProcUnavail, ErrGarbageArgs, errReply} {
		assert.NotErrorIs(t, err, other)
	}
}

// TestReadReplyVerifier checks that the longest verifier is skipped (Section
// 8.2).
func TestReadReplyVerifier(t *testing.T) {
	wire := wiretest.Bytes(t, "00000001 00000001 00000000 00000006 00000190")
	wire = append(wire, make([]byte, 404)...) // the body and SUCCESS
	require.Len(t, wire, MaxReplyHeader)
	wire = append(wire, "results."...)
	r := xdr.NewReader(wire)
	require.NoError(t, ReadReply(&r, 1))
	assert.Equal(t, "results.", string(r.Fixed(8)))
}

// FuzzReply checks that a client can read every reply of the mux, and that
// arbitrary bytes cause at most an error.
func FuzzReply(f *testing.F) {
	for _, file := range []string{"null-reply", "getattr-reply", "prog-mismatch", "rpc-mismatch", "auth-tooweak"} {
		f.Add(wiretest.Hex(f, "testdata/"+file+".hex"), uint32(0xf984739a))
	}
	f.Fuzz(func(t *testing.T, wire []byte, xid uint32) {
		r := xdr.NewReader(wire)
		if ReadReply(&r, xid) == nil {
			require.GreaterOrEqual(t, r.Offset(), rpcmsg.AcceptedLen)
			require.LessOrEqual(t, r.Offset(), MaxReplyHeader)
			require.Equal(t, xdr.AppendUint32(nil, xid), wire[:4])
		}
		require.LessOrEqual(t, r.Offset(), len(wire))
	})
}

// TestExchangeRoundTrip checks that an Exchange can read the reply that a Mux
// makes to its call.
func TestExchangeRoundTrip(t *testing.T) {
	x := Exchange{Prog: testProg, Vers: 2, Proc: procEcho, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 7}}
	msg := append(AppendCall(nil, 5, &x, "krypton"), 0, 0, 0, 5)
	req := &Request{Msg: msg, Item: []byte("hello"), ItemPos: len(msg), MaxReply: 100}
	var rep Reply
	require.True(t, echoMux().Serve(context.Background(), req, &rep))
	defer rep.DropItem()
	x.Results = xdr.NewReader(append(rep.Head, rep.Tail...))
	x.Results.SetMoved(rep.Item.B)
	require.NoError(t, ReadReply(&x.Results, 5))
	assert.Equal(t, "hello", string(x.Results.Item(100)))
	assert.EqualValues(t, 0xdeadbeef, x.Results.Uint32())
	require.NoError(t, x.Results.Done())

	x.Lent = buf.Default.Get(10)
	x.Release()
	x.Release()
	assert.Zero(t, x.Results)
	assert.Nil(t, x.Lent)
}
