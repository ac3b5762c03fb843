// Package keepalive makes the kernel detect TCP peers that vanished silently,
// for example when switched off or behind a cut network. It also reports
// whether bytes move. It must not know the content of a connection.
package keepalive

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of our own.
const (
	// silence is how long a connection is idle before the kernel probes the
	// peer's kernel, and pause the time between further probes.
	silence = 15 * time.Second
	pause   = 15 * time.Second

	// patience is how long a peer's kernel may leave a probe or data
	// unanswered, or keep a full window closed, before the connection fails.
	// TCP alone would repeat data for a quarter of an hour. A new route or a
	// moved server takes less time; Linux's NFS client has the same patience
	// with a call.
	patience = 60 * time.Second
)

// tcp returns the TCP connection below nc, for instance below TLS, or nc.
func tcp(nc net.Conn) net.Conn {
	if above, ok := nc.(interface{ NetConn() net.Conn }); ok {
		return above.NetConn()
	}
	return nc
}

// Watch makes a TCP connection fail, with ETIMEDOUT, when its peer is gone. It
// ignores other connections. If Watch itself fails, the connection has ended,
// and its next use reports that.
func Watch(nc net.Conn) { watch(tcp(nc), silence, pause, patience) }

// watch is Watch with its times, the first two in whole seconds.
func watch(nc net.Conn, silence, pause, patience time.Duration) {
	t, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: silence, Interval: pause})
	raw, err := t.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		// Also limits probes, in place of their number (tcp(7)).
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(patience.Milliseconds()))
	})
}

// Traffic returns how many bytes the peer has sent, and how many of this end's
// bytes it has acknowledged; 0 if unknown.
func Traffic(nc net.Conn) (in, out uint64) {
	t, ok := tcp(nc).(syscall.Conn)
	if !ok {
		return 0, 0
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return 0, 0
	}
	_ = raw.Control(func(fd uintptr) { in, out = TrafficOf(int(fd)) }) // fails on a closed connection
	return in, out
}

// TrafficOf is Traffic for a connection's descriptor.
func TrafficOf(fd int) (in, out uint64) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, 0
	}
	return info.Bytes_received, info.Bytes_acked
}
