package iwarp

import (
	"net"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A connection within the host has no network whose capacity must be found. An
// algorithm that measures and paces (BBR) delays bursts such as the data of
// RPCs, and once a socket has had such an algorithm, Linux continues to pace it
// with a timer for each burst. Therefore sockets get Reno (RFC 5681), which any
// process may request, if possible before they are connected: the sockets of a
// listener, whose connections from other hosts get the host's own algorithm
// back, and the sockets to a loopback address.

// sameHost reports whether traffic between the two addresses stays within the
// host.
func sameHost(from, to net.Addr) bool {
	a, b := ip(from), ip(to)
	return a.IsValid() && (a == b || b.IsLoopback())
}

func ip(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return t.AddrPort().Addr().Unmap().WithZone("")
}

// speed requests an algorithm that suits connections within the host. If the
// kernel has no Reno, nothing changes.
func speed(fd int) { congest(fd, "reno") }

func congest(fd int, algorithm string) {
	_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, algorithm)
}

// speedWithin is speed as the Control function of a net.Dialer, for loopback
// addresses.
func speedWithin(_, addr string, c syscall.RawConn) error {
	if a, err := netip.ParseAddrPort(addr); err != nil || !a.Addr().Unmap().IsLoopback() {
		return nil
	}
	return c.Control(func(fd uintptr) { speed(int(fd)) })
}

// speedAll calls speed for the listener l, and thus for all connections that l
// accepts, if the connections would be paced. It returns the algorithm that
// speed replaced, or "".
func speedAll(l net.Listener) (usual string) {
	withSocket(l, func(fd int) {
		name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		if err == nil && strings.HasPrefix(name, "bbr") {
			usual = name
			speed(fd)
		}
	})
	return usual
}

// restore gives a connection that leaves the host the algorithm that speedAll
// replaced.
func restore(nc net.Conn, usual string) {
	if usual != "" && !sameHost(nc.LocalAddr(), nc.RemoteAddr()) {
		withSocket(nc, func(fd int) { congest(fd, usual) })
	}
}

// withSocket calls f with the descriptor of a listener or a connection, if
// there is a descriptor.
func withSocket(of any, f func(fd int)) {
	s, ok := of.(syscall.Conn)
	if !ok {
		return
	}
	if c, err := s.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { f(int(fd)) })
	}
}
