package rpcbind

import (
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// Callers that have reached this host at one of its addresses.
var (
	v4 = oncrpc.Peer{Network: "tcp", Local: netip.MustParseAddrPort("10.1.2.3:111")}
	v6 = oncrpc.Peer{Network: "tcp", Local: netip.MustParseAddrPort("[2001:db8::7]:111")}
)

// portmapperServices returns the services of a portmapper that listens at every address, as
// rpcbind lists them.
func portmapperServices() []Service {
	at := netip.AddrPortFrom(any6, Port)
	return append(Services("tcp", at, Program, 3, 4), Services("udp", at, Program, 3, 4)...)
}

// TestAsRPCBind checks that the portmapper answers as rpcbind did.
func TestAsRPCBind(t *testing.T) {
	little := binary.NativeEndian.Uint16([]byte{1, 0}) == 1
	for _, tt := range []struct {
		name  string
		peer  *oncrpc.Peer
		taddr bool // in the byte order of rpcbind's host
	}{
		{"getaddr", &v4, false},
		{"getaddr6", &v6, false},
		{"getversaddr", &v4, false},
		{"getaddrlist", &v4, false},
		{"getaddrlist6", &v6, false},
		{"gettime", &v4, false},
		{"setagain", &v4, false},
		{"uaddr2taddr", &v4, true},
		{"uaddr2taddr6", &v6, true},
		{"uaddr2taddrother", &v4, false},
		{"taddr2uaddr", &v4, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.taddr && !little {
				t.Skip("recorded on a host of the other byte order")
			}
			p := NewPortmapper(portmapperServices())
			p.now = func() time.Time { return time.Unix(0x6b025f41, 999999999) }
			var m oncrpc.Mux
			p.Register(&m)
			want := wiretest.Hex(t, "testdata/"+tt.name+"-reply.hex")
			if tt.name == "gettime" {
				copy(want[24:], []byte{0x6b, 0x02, 0x5f, 0x41})
			}
			assert.Equal(t, want, answerTo(t, &m, tt.peer, wiretest.Hex(t, "testdata/"+tt.name+"-call.hex")))
		})
	}
}

// answerTo returns the reply of m.
func answerTo(t *testing.T, m *oncrpc.Mux, peer *oncrpc.Peer, call []byte) []byte {
	t.Helper()
	var rep oncrpc.Reply
	require.True(t, m.Serve(context.Background(), &oncrpc.Request{Msg: call, Peer: peer, MaxReply: oncrpc.MaxPacket}, &rep))
	return rep.Head
}

// TestStat checks that calls are counted as rpcbind counts them.
func TestStat(t *testing.T) {
	m := newMux(portmapperServices())
	for _, x := range []oncrpc.Exchange{
		{Vers: 2, Proc: procDump},
		{Vers: 4, Proc: procGetAddr, Args: RPCB{Prog: Program, Vers: 4, Netid: "tcp"}.AppendTo(nil)},
		{Vers: 2, Proc: procGetPort, Args: Mapping{Program, 4, TCP, 0}.AppendTo(nil)},
		{Vers: 2, Proc: 1 << 31}, // not counted
	} {
		x.Prog = Program
		answerTo(t, m, &v4, append(oncrpc.AppendCall(nil, 1, &x, ""), x.Args...))
	}
	assert.Equal(t, wiretest.Hex(t, "testdata/getstat-reply.hex"), answerTo(t, m, &v4, wiretest.Hex(t, "testdata/getstat-call.hex")))
}

// TestAddr checks the addresses that callers get.
func TestAddr(t *testing.T) {
	fixed := netip.MustParseAddrPort("192.0.2.7:52049")
	m := newMux([]Service{
		{nfs, 3, NetidTCP, netip.AddrPortFrom(any4, 2049)},
		{nfs, 3, NetidTCP6, netip.AddrPortFrom(any6, 2050)},
		{nfs, 3, NetidRDMA, netip.AddrPortFrom(any4, 20049)},
		{nfs, 4, NetidRDMA, netip.AddrPortFrom(any4, 20049)},
		{nfs, 3, NetidRDMA6, netip.AddrPortFrom(any6, 20050)},
		{mount, 3, NetidTCP, fixed},
		{mount, 1, NetidUDP, netip.AddrPortFrom(any4, 20048)},
	})
	udp := v4
	udp.Network = "udp"
	for _, tt := range []struct {
		name       string
		peer       oncrpc.Peer
		prog, vers uint32
		want, list string
	}{
		{"every address", v4, nfs, 3, "10.1.2.3.8.1", "tcp 10.1.2.3.8.1 rdma 10.1.2.3.78.81 "}, // R8166-9-2
		{"IPv6", v6, nfs, 3, "2001:db8::7.8.2", "tcp6 2001:db8::7.8.2 rdma6 2001:db8::7.78.82 "},
		{"another version", v4, nfs, 4, "10.1.2.3.8.1", "rdma 10.1.2.3.78.81 "},
		{"one address", v4, mount, 3, "192.0.2.7.203.81", "tcp 192.0.2.7.203.81 "},
		{"not over this transport", v6, mount, 3, "", ""},
		{"over UDP", udp, mount, 1, "10.1.2.3.78.80", "udp 10.1.2.3.78.80 "},
		{"absent", v4, 1, 3, "", ""},
		{"transport unknown", oncrpc.Peer{Network: "tcp"}, nfs, 3, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, x := range []struct{ vers, proc uint32 }{{3, procGetAddr}, {4, procGetAddr}, {4, procGetVersAddr}, {4, procGetAddrList}} {
				msg := oncrpc.AppendCall(nil, 7, &oncrpc.Exchange{Prog: Program, Vers: x.vers, Proc: x.proc}, "")
				msg = RPCB{Prog: tt.prog, Vers: tt.vers, Netid: "rdma", Addr: "203.0.113.1.0.1"}.AppendTo(msg)
				r := xdr.NewReader(answerTo(t, m, &tt.peer, msg)[24:])
				if x.proc == procGetAddrList {
					assert.Equal(t, tt.list, readEntries(&r))
				} else if want := tt.want; x.proc != procGetVersAddr || tt.vers != 4 {
					assert.Equal(t, want, r.String(100))
				} else {
					assert.Empty(t, r.String(100), "no other version will do")
				}
				assert.NoError(t, r.Done())
			}
		})
	}
}

// readEntries reads the results of GETADDRLIST: netids and addresses.
func readEntries(r *xdr.Reader) (s string) {
	for r.Bool() {
		addr := r.String(100)
		s += r.String(100) + " " + addr + " "
		r.Uint32()
		r.Opaque(100)
		r.Opaque(100)
	}
	return s
}

// TestTaddr checks that an address of another family, or a truncated one, is
// invalid.
func TestTaddr(t *testing.T) {
	for _, s := range []string{"10.1.2.3:2049", "[2001:db8::7]:2049"} {
		want := netip.MustParseAddrPort(s)
		r := xdr.NewReader(appendTaddr(nil, want))
		assert.Equal(t, want, decodeTaddr(&r))
		require.NoError(t, r.Done())
	}
	whole := appendTaddr(nil, netip.MustParseAddrPort("[2001:db8::7]:2049"))[8:]
	for n := range len(whole) {
		r := xdr.NewReader(xdr.AppendOpaque([]byte{0, 0, 0, 28}, whole[:n]))
		assert.Zero(t, decodeTaddr(&r), n)
		require.NoError(t, r.Done())
	}
	r := xdr.NewReader(xdr.AppendOpaque([]byte{0, 0, 0, 28}, make([]byte, 28))) // AF_UNSPEC
	assert.Zero(t, decodeTaddr(&r))
}
