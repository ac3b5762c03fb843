package iwarp

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"127.0.0.1:1", "127.0.0.1:2", true},
		{"127.0.0.1:1", "127.0.0.7:2", true},
		{"[::1]:1", "[::1]:2", true},
		{"[::ffff:192.0.2.1]:1", "192.0.2.1:2", true},
		{"[fe80::1%eth0]:1", "[fe80::1]:2", true},
		{"192.0.2.1:1", "192.0.2.2:2", false},
		{"[fe80::1%eth0]:1", "[fe80::2%eth0]:2", false},
	} {
		from := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.from))
		to := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.to))
		assert.Equal(t, c.want, sameHost(from, to), "%v to %v", from, to)
	}
	a, _ := net.Pipe()
	assert.False(t, sameHost(a.LocalAddr(), a.RemoteAddr()), "a pipe")
}

// A connection within the host is not held back by an algorithm that is made for
// networks.
func TestSameHostCongestion(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	s := newSocket(nc)
	defer s.close()
	require.NotNil(t, s.tcp)
	s.tcp.control(func(fd int) {
		name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		assert.NoError(t, err)
		assert.Equal(t, "reno", name)
	})
}
