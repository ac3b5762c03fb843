package iwarp

import (
	"net"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A connection that never leaves the host has no network to find the capacity of. An
// algorithm that measures and paces (BBR) holds back what comes in bursts, as the
// data of RPCs does, and Linux goes on to pace, with a timer for each burst, a
// socket that has had such an algorithm once. So sockets have another, Reno (RFC
// 5681), which any process may ask for, before they are connected, where that can
// be: those of a listener, which get the host's own where they come from elsewhere;
// and those to a loopback address.

// sameHost tells whether what is sent from one address to another leaves no host.
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

// speed asks for what suits a connection that never leaves the host. Where the
// kernel has no Reno, all stays as it is.
func speed(fd int) { congest(fd, "reno") }

func congest(fd int, algorithm string) {
	_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, algorithm)
}

// speedWithin is for net.Dialer.
func speedWithin(_, addr string, c syscall.RawConn) error {
	if a, err := netip.ParseAddrPort(addr); err != nil || !a.Addr().Unmap().IsLoopback() {
		return nil
	}
	return c.Control(func(fd uintptr) { speed(int(fd)) })
}

// speedAll asks for what suits connections within the host for all that l accepts,
// if they would be paced, and returns the algorithm that they would have had; else
// "".
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

// restore gives a connection that leaves the host the algorithm that speedAll took
// from it.
func restore(nc net.Conn, usual string) {
	if usual != "" && !sameHost(nc.LocalAddr(), nc.RemoteAddr()) {
		withSocket(nc, func(fd int) { congest(fd, usual) })
	}
}

// withSocket calls f with the descriptor of a listener or a connection that has one.
func withSocket(of any, f func(fd int)) {
	s, ok := of.(syscall.Conn)
	if !ok {
		return
	}
	if c, err := s.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { f(int(fd)) })
	}
}
