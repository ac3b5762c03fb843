package rpcbind

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

const mount = 100005

var (
	any4 = netip.IPv4Unspecified()
	any6 = netip.IPv6Unspecified()
)

// list is version 2's list of services.
var (
	list = []Mapping{
		{Program, PortmapVers, TCP, Port},
		{mount, 3, TCP, 20048},
		{mount, 1, UDP, 20049},
	}
	services = []Service{
		{Program, PortmapVers, NetidTCP, netip.AddrPortFrom(any4, Port)},
		{mount, 3, NetidTCP, netip.AddrPortFrom(any4, 20048)},
		{mount, 3, NetidTCP6, netip.AddrPortFrom(any6, 20048)},
		{mount, 1, NetidUDP, netip.AddrPortFrom(any4, 20049)},
		{mount, 3, NetidRDMA, netip.AddrPortFrom(any4, 20049)},
	}
)

func newMux(services []Service) *oncrpc.Mux {
	m := &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}
	NewPortmapper(services).Register(m)
	return m
}

// A scriptedCaller is a Caller that records the call with XID 7 and answers with bytes,
// or an error.
type scriptedCaller struct {
	call  []byte
	reply []byte
	err   error
}

func (s *scriptedCaller) Call(_ context.Context, x *oncrpc.Exchange) error {
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

// A resultFunc calls a procedure and returns its result.
type resultFunc func(ctx context.Context, c oncrpc.Caller) (any, error)

var golden = []struct {
	name string
	do   resultFunc
	want any
}{
	{"null", func(ctx context.Context, c oncrpc.Caller) (any, error) { return nil, Null(ctx, c) }, nil},
	{"getport", func(ctx context.Context, c oncrpc.Caller) (any, error) {
		return GetPort(ctx, c, mount, 3, TCP)
	}, uint16(20048)},
	{"dump", func(ctx context.Context, c oncrpc.Caller) (any, error) { return Dump(ctx, c) }, list},
}

// recorded are calls to rpcbind, and its replies.
var recorded = []struct {
	name string
	do   resultFunc
	want any
}{
	{"rpcbs", func(ctx context.Context, c oncrpc.Caller) (any, error) { return DumpRPCBs(ctx, c) }, []RPCB{
		{Program, 4, NetidTCP6, "::.0.111", "superuser"},
		{Program, 3, NetidTCP6, "::.0.111", "superuser"},
		{Program, 4, NetidUDP6, "::.0.111", "superuser"},
		{Program, 3, NetidUDP6, "::.0.111", "superuser"},
		{Program, 4, NetidTCP, "0.0.0.0.0.111", "superuser"},
		{Program, 3, NetidTCP, "0.0.0.0.0.111", "superuser"},
		{Program, 2, NetidTCP, "0.0.0.0.0.111", "superuser"},
		{Program, 4, NetidUDP, "0.0.0.0.0.111", "superuser"},
		{Program, 3, NetidUDP, "0.0.0.0.0.111", "superuser"},
		{Program, 2, NetidUDP, "0.0.0.0.0.111", "superuser"},
		{Program, 4, "local", "/run/rpcbind.sock", "superuser"},
		{Program, 3, "local", "/run/rpcbind.sock", "superuser"},
		{nfs, 3, NetidRDMA, "0.0.0.0.78.81", "superuser"},
		{nfs, 3, NetidRDMA6, "::.78.81", "superuser"},
	}},
	{"set", callSet(procSet, rdma4), true}, // R8166-9-2
	{"set6", callSet(procSet, rdma6), true},
	{"setagain", callSet(procSet, RPCB{nfs, 3, "rdma", "0.0.0.0.78.82", "superuser"}), false},
	{"unset", callSet(procUnset, rdma4), true},
}

const nfs = 100003

// NFS over RDMA on port 20049, with the netids of RFC 8166, Section 9.
var (
	rdma4 = RPCB{nfs, 3, "rdma", "0.0.0.0.78.81", "superuser"}
	rdma6 = RPCB{nfs, 3, "rdma6", "::.78.81", "superuser"}
)

func callSet(proc uint32, m RPCB) resultFunc {
	return func(ctx context.Context, c oncrpc.Caller) (any, error) { return setOrUnset(ctx, c, proc, m) }
}

// TestRecorded checks that the client sends calls that rpcbind understood, and
// understands its replies.
func TestRecorded(t *testing.T) {
	for _, tt := range recorded {
		t.Run(tt.name, func(t *testing.T) {
			s := &scriptedCaller{reply: wiretest.Hex(t, "testdata/"+tt.name+"-reply.hex")}
			got, err := tt.do(t.Context(), s)
			require.NoError(t, err)
			assert.Equal(t, wiretest.Hex(t, "testdata/"+tt.name+"-call.hex"), s.call)
			assert.Equal(t, tt.want, got)
		})
	}
}

// TestGolden checks that the client sends and understands the golden bytes, and
// that the server replies with them.
func TestGolden(t *testing.T) {
	for _, tt := range golden {
		t.Run(tt.name, func(t *testing.T) {
			call := wiretest.Hex(t, "testdata/"+tt.name+"-call.hex")
			reply := wiretest.Hex(t, "testdata/"+tt.name+"-reply.hex")
			s := &scriptedCaller{reply: reply}
			got, err := tt.do(t.Context(), s)
			require.NoError(t, err)
			assert.Equal(t, call, s.call)
			assert.Equal(t, tt.want, got)
			assert.Equal(t, reply, serveCall(t, call))
		})
	}
}

// TestResultsCut checks that results with missing or additional bytes are an
// error.
func TestResultsCut(t *testing.T) {
	for _, tt := range append(golden, recorded...) {
		t.Run(tt.name, func(t *testing.T) {
			reply := wiretest.Hex(t, "testdata/"+tt.name+"-reply.hex")
			for n := len(reply) - 1; n >= 24; n-- {
				_, err := tt.do(t.Context(), &scriptedCaller{reply: reply[:n]})
				assert.ErrorIs(t, err, xdr.ErrShort, n)
			}
			_, err := tt.do(t.Context(), &scriptedCaller{reply: append(reply, 0, 0, 0, 0)})
			assert.ErrorIs(t, err, xdr.ErrTrailing)
			_, err = tt.do(t.Context(), &scriptedCaller{err: io.ErrUnexpectedEOF})
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
		})
	}
}

// TestArgumentsCut checks that arguments with missing or additional bytes are
// garbage; NULL takes any.
func TestArgumentsCut(t *testing.T) {
	garbage := wiretest.Bytes(t, "00000007 00000001 00000000 00000000 00000000 00000004")
	for _, name := range []string{"getport", "dump"} {
		call := wiretest.Hex(t, "testdata/"+name+"-call.hex")
		for n := 40; n < len(call); n++ {
			assert.Equal(t, garbage, serveCall(t, call[:n]), n)
		}
		assert.Equal(t, garbage, serveCall(t, append(call, 0, 0, 0, 0)))
	}
}

// serveCall returns the server's reply to a call message.
func serveCall(t testing.TB, call []byte) []byte {
	t.Helper()
	var rep oncrpc.Reply
	req := &oncrpc.Request{Msg: call, MaxReply: 4096}
	require.True(t, newMux(services).Serve(context.Background(), req, &rep))
	assert.Nil(t, rep.Item)
	return append(rep.Head, rep.Tail...)
}

// FuzzDump checks that a decoded list is encoded to the same bytes.
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

// FuzzDumpRPCBs checks that a decoded list survives encoding and decoding.
func FuzzDumpRPCBs(f *testing.F) {
	f.Add(wiretest.Hex(f, "testdata/rpcbs-reply.hex")[24:])
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, wire []byte) {
		r := xdr.NewReader(wire)
		list := decodeRPCBs(&r)
		if r.Err() != nil {
			return
		}
		again := xdr.NewReader(appendRPCBs(nil, list))
		require.Equal(t, list, decodeRPCBs(&again))
		require.NoError(t, again.Done())
		require.Equal(t, r.Offset(), again.Offset())
	})
}

// FuzzServe checks that the reply to any input conforms to RFC 5531 and fits a
// datagram.
func FuzzServe(f *testing.F) {
	for _, name := range []string{"dump", "getport", "rpcbs", "set", "getaddr", "getaddrlist", "uaddr2taddr", "taddr2uaddr"} {
		f.Add(wiretest.Hex(f, "testdata/"+name+"-call.hex"), true)
	}
	m := newMux(services)
	f.Fuzz(func(t *testing.T, call []byte, six bool) {
		peer := v4
		if six {
			peer = v6
		}
		var rep oncrpc.Reply
		if !m.Serve(context.Background(), &oncrpc.Request{Msg: call, Peer: &peer, MaxReply: oncrpc.MaxPacket}, &rep) {
			require.Empty(t, rep.Head)
			return
		}
		r := xdr.NewReader(rep.Head)
		require.Equal(t, call[:4], r.Fixed(4))
		require.EqualValues(t, 1, r.Uint32(), "a reply")
		require.NoError(t, r.Err())
		require.LessOrEqual(t, len(rep.Head), oncrpc.MaxPacket)
	})
}
