// Package keepalive has the kernel notice the peers of TCP connections that are
// gone without a word: switched off, or behind a network that is cut; and tells
// whether bytes move. It must not know what a connection carries.
package keepalive

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of our own.
const (
	// silence is how long a connection carries nothing before the peer's
	// kernel is asked whether it is there, and again after every pause.
	silence = 15 * time.Second
	pause   = 15 * time.Second

	// patience is how long a peer's kernel may leave unanswered what it is
	// sent, such a question or data, or keep a full window closed, before
	// the connection fails. TCP alone would repeat data for a quarter of
	// an hour. What is routed anew, or a server that is moved, comes back in
	// less; Linux's NFS client has the same patience with a call.
	patience = 60 * time.Second
)

// Watch makes a TCP connection fail, with ETIMEDOUT, when its peer is gone. It
// does nothing to others. A failure means that the connection is gone, as its
// use will tell.
func Watch(nc net.Conn) { watch(nc, silence, pause, patience) }

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
		// Counts for questions too, in place of their number (tcp(7)).
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(patience.Milliseconds()))
	})
}

// Traffic returns how many bytes the peer has sent, and how many of this end's
// it has acknowledged; 0 where that cannot be known.
func Traffic(nc net.Conn) (in, out uint64) {
	t, ok := nc.(syscall.Conn)
	if !ok {
		return 0, 0
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return 0, 0
	}
	_ = raw.Control(func(fd uintptr) { in, out = TrafficOf(int(fd)) }) // fails where it is closed
	return in, out
}

// TrafficOf is Traffic by the connection's descriptor.
func TrafficOf(fd int) (in, out uint64) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, 0
	}
	return info.Bytes_received, info.Bytes_acked
}
