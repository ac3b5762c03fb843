package oncrpc

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// setCongestion sets a socket's congestion control, unless the name is "", and returns it.
func setCongestion(t *testing.T, of any, name string) (now string) {
	t.Helper()
	c, err := of.(interface {
		SyscallConn() (syscall.RawConn, error)
	}).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, c.Control(func(fd uintptr) {
		if name != "" {
			_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
		}
		now, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	}))
	require.NoError(t, err)
	return now
}

// TestNeverPaced checks that neither end of a connection within the host has BBR, which
// would delay each reply.
func TestNeverPaced(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	if setCongestion(t, l, "bbr") != "bbr" {
		l.Close()
		t.Skip("the kernel has no BBR, or keeps it for others")
	}
	s := &Server{Handler: echoMux()}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		assert.NoError(t, s.Shutdown(context.Background()))
		assert.NoError(t, <-served)
	}()
	require.Eventually(t, func() bool { return setCongestion(t, l, "") == "reno" }, time.Minute, time.Millisecond) // until then the kernel accepts connections with BBR
	c, err := DialTCP(t.Context(), l.Addr().String(), ClientConfig{})
	require.NoError(t, err)
	defer c.Close()
	x := &Exchange{Prog: testProg, Vers: 2}
	require.NoError(t, c.Call(t.Context(), x))
	x.Release()
	assert.Equal(t, "reno", setCongestion(t, c.nc, ""))
	line, err := DialTCPLine(t.Context(), l.Addr().String(), TCPLineConfig{})
	require.NoError(t, err)
	defer line.Close()
	require.NoError(t, line.Call(t.Context(), x))
	x.Release()
	assert.Equal(t, "reno", setCongestion(t, line.Conn().(tcpLineConn).nc, ""))
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		assert.Equal(t, "reno", setCongestion(t, c.nc, ""))
	}
	assert.Len(t, s.conns, 2)
}
