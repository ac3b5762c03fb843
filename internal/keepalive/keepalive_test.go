package keepalive

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// newConnPair returns the two ends of a connection.
func newConnPair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	accepted, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { accepted.Close() })
	return accepted.(*net.TCPConn), nc.(*net.TCPConn)
}

func socketOption(t *testing.T, nc *net.TCPConn, level, name int) (value int) {
	t.Helper()
	raw, err := nc.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, name) }))
	require.NoError(t, err)
	return value
}

func TestWatch(t *testing.T) {
	near, _ := newConnPair(t)
	Watch(near)
	assert.Equal(t, 1, socketOption(t, near, unix.SOL_SOCKET, unix.SO_KEEPALIVE))
	assert.Equal(t, 15, socketOption(t, near, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE))
	assert.Equal(t, 15, socketOption(t, near, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL))
	assert.Equal(t, 60_000, socketOption(t, near, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT))
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	Watch(a)
}

// dropPackets makes an end drop all packets, as if they were lost.
func dropPackets(t *testing.T, nc *net.TCPConn) {
	t.Helper()
	raw, err := nc.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
	}))
	require.NoError(t, err)
}

// TestVanished checks that the loss of a peer that sends no FIN is detected,
// both with and without data sent to that peer.
func TestVanished(t *testing.T) {
	for _, owed := range []bool{false, true} {
		t.Run(map[bool]string{false: "idle", true: "owed data"}[owed], func(t *testing.T) {
			t.Parallel()
			near, far := newConnPair(t)
			setTimeouts(near, time.Second, time.Second, 1500*time.Millisecond)
			dropPackets(t, far)
			if owed {
				_, err := near.Write([]byte("a reply"))
				require.NoError(t, err)
			}
			// Without Watch, detection would take 2 hours, or a quarter of an hour.
			require.NoError(t, near.SetReadDeadline(time.Now().Add(time.Minute)))
			_, err := near.Read(make([]byte, 1))
			assert.ErrorIs(t, err, unix.ETIMEDOUT)
		})
	}
}

// TestIdle checks that the connection to a live peer stays open.
func TestIdle(t *testing.T) {
	t.Parallel()
	near, far := newConnPair(t)
	setTimeouts(near, time.Second, time.Second, 1500*time.Millisecond)
	require.NoError(t, near.SetReadDeadline(time.Now().Add(2500*time.Millisecond)))
	_, err := near.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, far.CloseWrite())
	require.NoError(t, near.SetReadDeadline(time.Time{}))
	_, err = near.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err)
}

// TestTraffic checks that Traffic counts arrived bytes, at both ends.
func TestTraffic(t *testing.T) {
	near, far := newConnPair(t)
	_, err := far.Write(make([]byte, 1000))
	require.NoError(t, err)
	_, err = io.ReadFull(near, make([]byte, 1000))
	require.NoError(t, err)
	in, _ := Traffic(near)
	assert.GreaterOrEqual(t, in, uint64(1000))
	require.Eventually(t, func() bool {
		_, out := Traffic(far)
		return out >= 1000
	}, time.Minute, time.Millisecond)
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	in, out := Traffic(a)
	assert.Zero(t, in+out, "not TCP's value")
	near.Close()
	in, out = Traffic(near)
	assert.Zero(t, in+out, "closed")
}

// TestLost checks the signs of an abandoned connection: an unread FIN, a reset, a
// peer that does not acknowledge data, and a close on this end.
func TestLost(t *testing.T) {
	for name, give := range map[string]func(near, far *net.TCPConn){
		"FIN":   func(_, far *net.TCPConn) { _ = far.Close() },
		"reset": func(_, far *net.TCPConn) { _ = far.SetLinger(0); _ = far.Close() },
		"silence": func(near, far *net.TCPConn) {
			dropPackets(t, far)
			_, err := near.Write([]byte("reply"))
			assert.NoError(t, err)
		},
		"closed": func(near, _ *net.TCPConn) { _ = near.Close() },
	} {
		near, far := newConnPair(t)
		_, err := near.Write([]byte("reply"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return !StateOf(near).Lost }, 10*time.Second, time.Millisecond, name)
		give(near, far)
		require.Eventually(t, func() bool { return StateOf(near).Lost }, 10*time.Second, time.Millisecond, name)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	assert.False(t, StateOf(a).Lost, "unknown")
}
