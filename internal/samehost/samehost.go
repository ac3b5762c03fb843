package samehost

import (
	"net"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Is reports whether traffic between the two addresses stays within the
// host.
func Is(from, to net.Addr) bool {
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

// Speed gives a socket Reno. If the kernel has no Reno, nothing changes.
func Speed(fd int) { congest(fd, "reno") }

func congest(fd int, algorithm string) {
	_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, algorithm)
}

// SpeedDial is Speed as the Control function of a net.Dialer, for loopback
// addresses.
func SpeedDial(_, addr string, c syscall.RawConn) error {
	if a, err := netip.ParseAddrPort(addr); err != nil || !a.Addr().Unmap().IsLoopback() {
		return nil
	}
	return c.Control(func(fd uintptr) { Speed(int(fd)) })
}

// SpeedListener calls Speed for the listener l, and thus for all connections that l
// accepts, if the connections would be paced. It returns the algorithm that
// Speed replaced, or "".
func SpeedListener(l net.Listener) (usual string) {
	withSocket(l, func(fd int) {
		name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		if err == nil && strings.HasPrefix(name, "bbr") {
			usual = name
			Speed(fd)
		}
	})
	return usual
}

// Restore gives a connection that leaves the host the algorithm that SpeedListener
// replaced.
func Restore(nc net.Conn, usual string) {
	if usual != "" && !Is(nc.LocalAddr(), nc.RemoteAddr()) {
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
