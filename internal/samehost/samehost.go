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
	a, b := addrOf(from), addrOf(to)
	return a.IsValid() && (a == b || b.IsLoopback())
}

func addrOf(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return t.AddrPort().Addr().Unmap().WithZone("")
}

// SetReno sets a socket's congestion control to Reno, which does not pace. If the kernel has
// no Reno, nothing changes.
func SetReno(fd int) { setCongestionControl(fd, "reno") }

func setCongestionControl(fd int, algorithm string) {
	_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, algorithm)
}

// ControlDial calls SetReno for sockets that connect to a loopback address. It is a
// net.Dialer's Control function.
func ControlDial(_, addr string, c syscall.RawConn) error {
	if a, err := netip.ParseAddrPort(addr); err != nil || !a.Addr().Unmap().IsLoopback() {
		return nil
	}
	return c.Control(func(fd uintptr) { SetReno(int(fd)) })
}

// SetListenerReno calls SetReno for the listener l, and thus for all connections that l
// accepts, if the connections would be paced. It returns the algorithm that
// SetReno replaced, or "".
func SetListenerReno(l net.Listener) (usual string) {
	withSocket(l, func(fd int) {
		name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		if err == nil && strings.HasPrefix(name, "bbr") {
			usual = name
			SetReno(fd)
		}
	})
	return usual
}

// RestoreAlgorithm sets a connection's congestion control to usual, which SetListenerReno
// returned, if the connection leaves the host.
func RestoreAlgorithm(nc net.Conn, usual string) {
	if usual != "" && !Is(nc.LocalAddr(), nc.RemoteAddr()) {
		withSocket(nc, func(fd int) { setCongestionControl(fd, usual) })
	}
}

// withSocket calls f with the descriptor of a listener or a connection, if it has
// one.
func withSocket(conn any, f func(fd int)) {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	if c, err := s.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { f(int(fd)) })
	}
}
