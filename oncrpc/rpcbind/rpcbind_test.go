package rpcbind

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// startServer serves services over TCP and connects to it.
func startServer(t *testing.T, services []Service) *oncrpc.TCPClient {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &oncrpc.Server{Handler: newMux(services)}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c, err := oncrpc.DialTCP(t.Context(), l.Addr().String(), oncrpc.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, c.Close())
		assert.NoError(t, s.Shutdown(context.Background()))
		assert.NoError(t, <-served)
		assert.Zero(t, buf.Default.Out(), "buffers")
	})
	return c
}

func TestGetPort(t *testing.T) {
	c := startServer(t, []Service{
		{mount, 1, NetidTCP, netip.AddrPortFrom(any4, 635)},
		{mount, 3, NetidTCP, netip.AddrPortFrom(any4, 65535)},
		{mount, 3, NetidUDP, netip.AddrPortFrom(any4, 1)},
		{mount, 3, NetidRDMA, netip.AddrPortFrom(any4, 20049)},
	})
	for _, tt := range []struct {
		name              string
		prog, vers, proto uint32
		want              uint16
	}{
		{"of many versions", mount, 1, TCP, 635},
		{"the highest port", mount, 3, TCP, 65535},
		{"over UDP", mount, 3, UDP, 1},
		{"another version, that the program will refuse", mount, 4, UDP, 1},
		{"unknown program", mount + 1, 3, TCP, 0},
		{"unknown protocol", mount, 3, 132, 0},
		{"no protocol", mount, 3, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port, err := GetPort(t.Context(), c, tt.prog, tt.vers, tt.proto)
			assert.Equal(t, tt.want, port)
			if tt.want == 0 {
				assert.ErrorIs(t, err, ErrNotRegistered)
			} else {
				assert.NoError(t, err)
			}
		})
	}
}

func TestDump(t *testing.T) {
	for _, n := range []int{0, 1, maxMappings} {
		var list []Mapping
		var services []Service
		for i := range uint32(n) {
			list = append(list, Mapping{i, 3, TCP, i + 1})
			services = append(services, Service{i, 3, NetidTCP, netip.AddrPortFrom(any4, uint16(i+1))})
		}
		c := startServer(t, services)
		require.NoError(t, Null(t.Context(), c))
		got, err := Dump(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, list, got)
	}
}

// TestRefused checks that calls that would change the list, or use the
// portmapper's name, are refused: silently if the protocol requires that.
func TestRefused(t *testing.T) {
	c := startServer(t, services)
	v2 := Mapping{mount, 4, TCP, 1}.AppendTo(nil)
	v34 := rdma4.AppendTo(nil)
	// prog, vers, proc, no arguments: of CALLIT, BCAST and INDIRECT
	indirect := xdr.AppendUint32(Mapping{mount, 3, 0, 0}.AppendTo(nil)[:12], 0)
	const indirectProc = 10
	refused := []byte{0, 0, 0, 0}
	for _, tt := range []struct {
		vers, proc uint32
		args       []byte
		err        error // nil: FALSE
	}{
		{2, procSet, v2, nil},
		{2, procUnset, v2, nil},
		{2, 6, v2, oncrpc.ErrProcUnavail},
		{3, procSet, v34, nil},
		{3, procUnset, v34, nil},
		{3, procGetVersAddr, v34, oncrpc.ErrProcUnavail},
		{3, procGetStat, nil, oncrpc.ErrProcUnavail},
		{4, procSet, v34, nil},
		{4, procUnset, v34, nil},
		{4, indirectProc, indirect, oncrpc.ErrProcUnavail},
		{4, 13, nil, oncrpc.ErrProcUnavail},
		{4, procSet, v34[:12], oncrpc.ErrGarbageArgs},
		{4, procSet, RPCB{Owner: strings.Repeat("x", maxString+1)}.AppendTo(nil), oncrpc.ErrGarbageArgs},
	} {
		x := oncrpc.Exchange{Prog: Program, Vers: tt.vers, Proc: tt.proc, Args: tt.args, MaxResults: 4}
		err := c.Call(t.Context(), &x)
		if tt.err != nil {
			assert.ErrorIs(t, err, tt.err, tt)
			continue
		}
		require.NoError(t, err, tt)
		assert.Equal(t, refused, x.Results.Fixed(4), tt)
		x.Release()
	}
	for _, vers := range []uint32{2, 3, 4} {
		msg := oncrpc.AppendCall(nil, 7, &oncrpc.Exchange{Prog: Program, Vers: vers, Proc: procCallIt}, "")
		var rep oncrpc.Reply
		req := oncrpc.Request{Msg: append(msg, indirect...), Peer: &v4, MaxReply: oncrpc.MaxPacket}
		assert.False(t, newMux(services).Serve(t.Context(), &req, &rep), vers)
	}
	x := oncrpc.Exchange{Prog: Program, Vers: 5}
	var reply *oncrpc.ReplyError
	require.ErrorAs(t, c.Call(t.Context(), &x), &reply)
	assert.Equal(t, []uint32{2, 4}, []uint32{reply.Low, reply.High})
	got, err := Dump(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, list, got)
}

// TestPortTooHigh checks that an invalid port is not turned into another port.
func TestPortTooHigh(t *testing.T) {
	reply := append(wiretest.Hex(t, "testdata/getport-reply.hex")[:24], 0, 1, 0, 111)
	_, err := GetPort(t.Context(), &scriptedCaller{reply: reply}, mount, 3, TCP)
	assert.ErrorIs(t, err, xdr.ErrValue)
}

func TestOtherPrograms(t *testing.T) {
	_, err := GetPort(t.Context(), &scriptedCaller{err: oncrpc.ErrProgUnavail}, mount, 3, TCP)
	assert.ErrorIs(t, err, oncrpc.ErrProgUnavail)
}
