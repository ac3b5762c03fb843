package rpcbind

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestUaddr: R7530-2.2.10-1, R8881-3.3.9-1.
func TestUaddr(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.7:52049":          "192.0.2.7.203.81", // RFC 5665, Section 5.2.3.3
		"127.0.0.1:2049":           "127.0.0.1.8.1",
		"0.0.0.0:111":              "0.0.0.0.0.111",
		"[::]:65535":               "::.255.255",
		"[2001:db8::7]:2049":       "2001:db8::7.8.1",
		"[::ffff:192.0.2.7]:52049": "192.0.2.7.203.81",
		"[fe80::1%eth0]:20049":     "fe80::1.78.81",
	} {
		assert.Equal(t, want, Uaddr(netip.MustParseAddrPort(addr)), addr)
	}
	// All three forms of RFC 4291, Section 2.2.
	for _, s := range []string{"2001:db8:0:0:0:0:cb00:7107.8.1", "2001:db8::cb00:7107.8.1", "2001:DB8::203.0.113.7.8.1"} {
		a, err := ParseUaddr(s)
		require.NoError(t, err)
		assert.Equal(t, netip.MustParseAddrPort("[2001:db8::cb00:7107]:2049"), a)
	}
	for _, s := range []string{
		"", ".", "..", "1.2.3.4", "1.2.3.4.5", "1.2.3.4.5.256", "1.2.3.4.256.5", "1.2.3.4.-1.5", "1.2.3.4.+1.5", "1.2.3.4.5.",
		"1.2.3.4..5", "1.2.3.5.6", "::1", "::1.8", "fe80::1%eth0.8.1", "/run/rpcbind.sock", "host.8.1", "1.2.3.4.0x8.1",
	} {
		_, err := ParseUaddr(s)
		assert.ErrorIs(t, err, ErrUaddr, s)
	}
}

// FuzzUaddr checks that a parsed address survives formatting and parsing.
func FuzzUaddr(f *testing.F) {
	f.Add("192.0.2.7.203.81")
	f.Add("2001:db8::7.8.1")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseUaddr(s)
		if err != nil {
			return
		}
		again, err := ParseUaddr(Uaddr(a))
		require.NoError(t, err)
		require.Equal(t, netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), again)
	})
}

// TestServices checks the netids with which a listener is reached.
func TestServices(t *testing.T) {
	for _, tt := range []struct{ network, at, want string }{
		{"tcp", "[::]:2049", "tcp 0.0.0.0:2049 tcp6 [::]:2049 "},
		{"rdma", "[::]:20049", "rdma 0.0.0.0:20049 rdma6 [::]:20049 "}, // R8166-9-2
		{"tcp", "0.0.0.0:2049", "tcp 0.0.0.0:2049 "},
		{"udp", "127.0.0.1:111", "udp 127.0.0.1:111 "},
		{"rdma", "[::1]:20049", "rdma6 [::1]:20049 "},
		{"tcp", "[::ffff:192.0.2.7]:2049", "tcp 192.0.2.7:2049 "},
		{"portmap", "[::]:111", ""},
	} {
		var got string
		for _, s := range Services(tt.network, netip.MustParseAddrPort(tt.at), nfs, 3) {
			assert.Equal(t, []uint32{nfs, 3}, []uint32{s.Prog, s.Vers})
			got += s.Netid + " " + s.Addr.String() + " "
		}
		assert.Equal(t, tt.want, got, tt)
	}
}
