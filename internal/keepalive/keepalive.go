// Package keepalive makes the kernel detect TCP peers that vanished silently, for
// example when switched off or disconnected from the network. It also reports
// whether bytes move. It must not depend on a connection's content.
package keepalive

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of our own.
const (
	// idleTime is the time for which a connection is idle before the kernel probes
	// the peer's kernel, and probeInterval the time between further probes.
	idleTime      = 15 * time.Second
	probeInterval = 15 * time.Second

	// failTime is the time for which a peer's kernel may leave a probe or data
	// unanswered, or keep a full window closed, before the connection fails.
	// Otherwise TCP would retransmit data for a quarter of an hour. A new route or
	// a moved server takes less time; Linux's NFS client waits as long for a call.
	failTime = 60 * time.Second
)

// underlyingConn returns the TCP connection below nc, for instance below TLS, or nc.
func underlyingConn(nc net.Conn) net.Conn {
	if above, ok := nc.(interface{ NetConn() net.Conn }); ok {
		return above.NetConn()
	}
	return nc
}

// Watch makes a TCP connection fail, with ETIMEDOUT, when its peer is gone. It
// ignores other connections. If Watch itself fails, the connection is closed, and
// its next use reports that.
func Watch(nc net.Conn) { setTimeouts(underlyingConn(nc), idleTime, probeInterval, failTime) }

// setTimeouts sets the times for Watch, the first two in whole seconds.
func setTimeouts(nc net.Conn, silence, pause, patience time.Duration) {
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
		// Also limits probes, instead of their number (tcp(7)).
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(patience.Milliseconds()))
	})
}

// A State is the kernel's state for a TCP connection; it is zero for other
// connections.
type State struct {
	In  uint64 // bytes that the peer has sent
	Out uint64 // bytes from this end that the peer has acknowledged

	// Lost reports that the connection is closed, that a FIN has arrived, or that
	// the peer's kernel has acknowledged neither a retransmission nor two probes:
	// the peer has probably abandoned the connection.
	Lost bool
}

// Traffic returns the number of bytes that the peer has sent, and the number of
// this end's bytes that it has acknowledged; 0 if unknown.
func Traffic(nc net.Conn) (in, out uint64) {
	s := StateOf(nc)
	return s.In, s.Out
}

// StateOf returns the state of a connection.
func StateOf(nc net.Conn) (s State) {
	t, ok := underlyingConn(nc).(syscall.Conn)
	if !ok {
		return s
	}
	raw, err := t.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { s = StateOfFD(int(fd)) })
	}
	if err != nil { // closed
		s.Lost = true
	}
	return s
}

// StateOfFD returns the state of the connection with a descriptor.
func StateOfFD(fd int) State {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return State{}
	}
	return State{
		In: info.Bytes_received, Out: info.Bytes_acked,
		Lost: info.State != unix.BPF_TCP_ESTABLISHED || info.Retransmits > 0 || info.Probes > 1,
	}
}
