package main

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestReno: both ends of a connection of the limits have Reno, whatever the host's
// choice is.
func TestReno(t *testing.T) {
	l, err := listen()
	require.NoError(t, err)
	defer l.Close()
	near, err := dial(l.Addr().String())
	require.NoError(t, err)
	defer near.Close()
	far, err := l.Accept()
	require.NoError(t, err)
	defer far.Close()
	for _, end := range []net.Conn{near, far} {
		c, err := end.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, c.Control(func(fd uintptr) {
			name, err := unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
			assert.NoError(t, err)
			assert.Equal(t, "reno", name)
		}))
	}
}
