package iwarp

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

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

// speed asks for what suits a connection that never leaves the host: there is no
// network to find the capacity of, and an algorithm that measures and paces (BBR)
// holds back what comes in bursts, as the data of RPCs does. Any process may ask
// for Reno (RFC 5681). Where the kernel has none, all stays as it is.
func speed(fd int) {
	_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
}
