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

// pair returns the two ends of a connection.
func pair(t *testing.T) (near, far *net.TCPConn) {
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

func option(t *testing.T, nc *net.TCPConn, level, name int) (value int) {
	t.Helper()
	raw, err := nc.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, name) }))
	require.NoError(t, err)
	return value
}

func TestWatch(t *testing.T) {
	near, _ := pair(t)
	Watch(near)
	assert.Equal(t, 1, option(t, near, unix.SOL_SOCKET, unix.SO_KEEPALIVE))
	assert.Equal(t, 15, option(t, near, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE))
	assert.Equal(t, 15, option(t, near, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL))
	assert.Equal(t, 60_000, option(t, near, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT))
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	Watch(a)
}

// vanish makes an end receive and answer nothing, as if packets to it were
// lost.
func vanish(t *testing.T, nc *net.TCPConn) {
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
			near, far := pair(t)
			watch(near, time.Second, time.Second, 1500*time.Millisecond)
			vanish(t, far)
			if owed {
				_, err := near.Write([]byte("a reply"))
				require.NoError(t, err)
			}
			// Without a watch, detection would take 2 hours, or a quarter of
			// one.
			require.NoError(t, near.SetReadDeadline(time.Now().Add(time.Minute)))
			_, err := near.Read(make([]byte, 1))
			assert.ErrorIs(t, err, unix.ETIMEDOUT)
		})
	}
}

// TestIdle checks that a live peer is left alone.
func TestIdle(t *testing.T) {
	t.Parallel()
	near, far := pair(t)
	watch(near, time.Second, time.Second, 1500*time.Millisecond)
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
	near, far := pair(t)
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
