package iwarp

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSameHostCongestion checks that a connection within the host uses Reno,
// rather than an algorithm made for networks.
func TestSameHostCongestion(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	s := newSocket(nc)
	defer s.close()
	require.NotNil(t, s.tcp)
	s.tcp.withFD(func(fd int) {
		name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		assert.NoError(t, err)
		assert.Equal(t, "reno", name)
	})
}
