package samehost

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestIs(t *testing.T) {
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
		assert.Equal(t, c.want, Is(from, to), "%v to %v", from, to)
	}
	a, _ := net.Pipe()
	assert.False(t, Is(a.LocalAddr(), a.RemoteAddr()), "a pipe")
}

// congestionControl returns a socket's congestion control.
func congestionControl(t *testing.T, of any) (name string) {
	t.Helper()
	withSocket(of, func(fd int) {
		var err error
		name, err = unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		require.NoError(t, err)
	})
	return name
}

// TestNeverPaced checks that a local connection never had a pacing algorithm
// before either, because the pacing would persist. A connection from another
// host gets the algorithm that the administrator has configured.
func TestNeverPaced(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	withSocket(l, func(fd int) { setCongestionControl(fd, "bbr") })
	if congestionControl(t, l) != "bbr" {
		l.Close()
		t.Skip("the kernel has no BBR, or keeps it for others")
	}
	defer l.Close()
	usual := SetListenerReno(l)
	assert.Equal(t, "reno", congestionControl(t, l), "what is accepted inherits it")

	d := net.Dialer{Control: ControlDial}
	nc, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	defer nc.Close()
	assert.Equal(t, "reno", congestionControl(t, nc))

	moved := func(from, to string) string {
		RestoreAlgorithm(fakeAddrConn{nc.(*net.TCPConn), from, to}, usual)
		return congestionControl(t, nc)
	}
	assert.Equal(t, "reno", moved("192.0.2.1:1", "192.0.2.1:2"))
	assert.Equal(t, "bbr", moved("192.0.2.1:1", "192.0.2.2:2"))
}

// A fakeAddrConn is a connection that reports other addresses.
type fakeAddrConn struct {
	*net.TCPConn
	local, remote string
}

func (c fakeAddrConn) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.local))
}

func (c fakeAddrConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.remote))
}
