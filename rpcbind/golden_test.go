package rpcbind

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr"
)

const mount = 100005

var list = []Mapping{
	{Program, PortmapVers, TCP, Port},
	{mount, 3, TCP, 20048},
	{mount, 1, UDP, 20049},
}

func newMux(list []Mapping) *oncrpc.Mux {
	m := &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}
	(&Portmapper{Mappings: list}).Register(m)
	return m
}

// A script is a Caller that notes the call with XID 7 and answers it with
// octets, or an error.
type script struct {
	call  []byte
	reply []byte
	err   error
}

func (s *script) Call(_ context.Context, x *oncrpc.Exchange) error {
	s.call = append(oncrpc.AppendCall(nil, 7, x, ""), x.Args...)
	if s.err != nil {
		return s.err
	}
	x.Results = xdr.NewReader(s.reply)
	if len(s.reply) > oncrpc.MaxReplyHeader+x.MaxResults {
		return errors.New("longer than MaxResults")
	}
	return oncrpc.ReadReply(&x.Results, 7)
}

// What a procedure returns.
type result func(ctx context.Context, c oncrpc.Caller) (any, error)

var golden = []struct {
	name string
	do   result
	want any
}{
	{"null", func(ctx context.Context, c oncrpc.Caller) (any, error) { return nil, Null(ctx, c) }, nil},
	{"getport", func(ctx context.Context, c oncrpc.Caller) (any, error) {
		return GetPort(ctx, c, mount, 3, TCP)
	}, uint16(20048)},
	{"dump", func(ctx context.Context, c oncrpc.Caller) (any, error) { return Dump(ctx, c) }, list},
}

// The client sends and understands the golden octets, and the server answers
// with them.
func TestGolden(t *testing.T) {
	for _, tt := range golden {
		t.Run(tt.name, func(t *testing.T) {
			call := wiretest.Hex(t, "testdata/"+tt.name+"-call.hex")
			reply := wiretest.Hex(t, "testdata/"+tt.name+"-reply.hex")
			s := &script{reply: reply}
			got, err := tt.do(t.Context(), s)
			require.NoError(t, err)
			assert.Equal(t, call, s.call)
			assert.Equal(t, tt.want, got)
			assert.Equal(t, reply, serve(t, call))
		})
	}
}

// Results that are cut anywhere, or go on, are an error.
func TestResultsCut(t *testing.T) {
	for _, tt := range golden {
		t.Run(tt.name, func(t *testing.T) {
			reply := wiretest.Hex(t, "testdata/"+tt.name+"-reply.hex")
			for n := len(reply) - 1; n >= 24; n-- {
				_, err := tt.do(t.Context(), &script{reply: reply[:n]})
				assert.ErrorIs(t, err, xdr.ErrShort, n)
			}
			_, err := tt.do(t.Context(), &script{reply: append(reply, 0, 0, 0, 0)})
			assert.ErrorIs(t, err, xdr.ErrTrailing)
			_, err = tt.do(t.Context(), &script{err: io.ErrUnexpectedEOF})
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
		})
	}
}

// Arguments that are cut anywhere, or go on, are garbage; NULL takes any.
func TestArgumentsCut(t *testing.T) {
	garbage := wiretest.Octets(t, "00000007 00000001 00000000 00000000 00000000 00000004")
	for _, name := range []string{"getport", "dump"} {
		call := wiretest.Hex(t, "testdata/"+name+"-call.hex")
		for n := 40; n < len(call); n++ {
			assert.Equal(t, garbage, serve(t, call[:n]), n)
		}
		assert.Equal(t, garbage, serve(t, append(call, 0, 0, 0, 0)))
	}
}

// serve returns the server's reply to a call message.
func serve(t testing.TB, call []byte) []byte {
	t.Helper()
	var rep oncrpc.Reply
	req := &oncrpc.Request{Msg: call, MaxReply: 4096}
	require.True(t, newMux(list).Serve(context.Background(), req, &rep))
	assert.Nil(t, rep.Item)
	return append(rep.Head, rep.Tail...)
}

// FuzzDump: a list that is decoded is, written again, the octets that it was
// read from.
func FuzzDump(f *testing.F) {
	f.Add(wiretest.Hex(f, "testdata/dump-reply.hex")[24:])
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, wire []byte) {
		r := xdr.NewReader(wire)
		list := decodeList(&r)
		if r.Err() != nil {
			return
		}
		require.Len(t, wire[:r.Offset()], listLen(len(list)))
		require.Equal(t, wire[:r.Offset()], appendList(nil, list))
	})
}
