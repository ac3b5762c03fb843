package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A PortState is the result of connecting to a TCP port.
type PortState int

// The states of ports.
const (
	Open            PortState = iota
	portRefused               // RST: nothing listens there, or a firewall sent it
	portRejected              // a firewall sent an ICMP message
	portSilent                // packets are dropped
	portDroppedHere           // this host's own firewall drops the packets
	portUnanswered            // no host on this host's network has the address
	portNoRoute               // this host or a router has no route
	portForbidden             // this host forbids the connection
	portUnusable              // any other error
)

// A Port is a TCP port and its state.
type Port struct {
	Addr  netip.AddrPort
	State PortState
	By    netip.Addr // sender of the ICMP message; invalid if there was none
	Err   error      // nil if Open
}

// TryPort connects to a port, and closes the connection. It waits at most for wait, which
// should be long enough for the kernel's first retransmission, after 1 s.
func TryPort(ctx context.Context, addr netip.AddrPort, wait time.Duration) Port {
	p, _ := tryPort(ctx, addr, wait, 0)
	return p
}

// tryPort is TryPort with a hop limit, unless hops is 0. late reports that the limit was
// reached.
func tryPort(ctx context.Context, addr netip.AddrPort, wait time.Duration, hops int) (p Port, late bool) {
	p = Port{Addr: addr}
	fd, sa, err := probeSocket(addr, hops)
	if err != nil {
		return p.asUnusable(err), false
	}
	defer unix.Close(fd)
	if err = unix.Connect(fd, sa); err == unix.EINPROGRESS {
		err = awaitConnect(ctx, fd, wait)
	}
	p.Err = err
	cause, by := errorQueue(fd)
	p.By = by
	switch {
	case err == nil:
	case errors.Is(err, unix.ETIMEDOUT):
		p.State = portSilent
		if sent, lost := retransmissions(fd); lost && !sent {
			p.State = portDroppedHere
		}
	case cause == icmpHopLimit:
		return p, true
	case cause == icmpRejected:
		p.State = portRejected
	case errors.Is(err, unix.ECONNREFUSED):
		p.State = portRefused
	case errors.Is(err, unix.EHOSTUNREACH) && by.IsValid() && isLocal(by):
		p.State = portUnanswered
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH):
		p.State = portNoRoute
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.EINVAL):
		p.State = portForbidden
	default:
		p.State = portUnusable
	}
	return p, false
}

// asUnusable returns the port with state Unusable.
func (p Port) asUnusable(err error) Port {
	p.State, p.Err = portUnusable, err
	return p
}

// probeSocket returns a socket that reports ICMP messages, and the address for it.
func probeSocket(addr netip.AddrPort, hops int) (fd int, sa unix.Sockaddr, err error) {
	ip := addr.Addr().Unmap()
	family, level, reports, limit := unix.AF_INET, unix.IPPROTO_IP, unix.IP_RECVERR, unix.IP_TTL
	if ip.Is4() {
		sa = &unix.SockaddrInet4{Port: int(addr.Port()), Addr: ip.As4()}
	} else {
		family, level, reports, limit = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, unix.IPV6_UNICAST_HOPS
		six := &unix.SockaddrInet6{Port: int(addr.Port()), Addr: ip.As16()}
		if zone := ip.Zone(); zone != "" {
			i, err := net.InterfaceByName(zone)
			if err != nil {
				return -1, nil, err
			}
			six.ZoneId = uint32(i.Index)
		}
		sa = six
	}
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, nil, err
	}
	err = unix.SetsockoptInt(fd, level, reports, 1)
	if err == nil && hops > 0 {
		err = unix.SetsockoptInt(fd, level, limit, hops)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, sa, err
}

// tick is how often awaitConnect checks its context.
const tick = 100 * time.Millisecond

// awaitConnect waits for the result of a started connect.
func awaitConnect(ctx context.Context, fd int, wait time.Duration) error {
	for end := time.Now().Add(wait); ; {
		left := min(time.Until(end), tick)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(max(left, 0)/time.Millisecond))
		switch {
		case err != nil && err != unix.EINTR:
			return err
		case n > 0:
			no, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			if err == nil && no != 0 {
				err = unix.Errno(no)
			}
			return err
		case ctx.Err() != nil, left <= 0:
			return unix.ETIMEDOUT
		}
	}
}

// retransmissions reports whether the kernel has sent the latest retransmission, and whether
// it has tried to. A local firewall makes the attempt fail without an error.
func retransmissions(fd int) (sent, tried bool) {
	i, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && i.Retrans > 0, err == nil && i.Total_retrans > 0
}

// An icmpCause is the meaning of an ICMP message.
type icmpCause int

const (
	icmpOther    icmpCause = iota
	icmpHopLimit           // the hop limit was reached
	icmpRejected
)

// errorQueue returns the cause and the sender of the ICMP message that ended a connect, if
// any (ip(7), IP_RECVERR).
func errorQueue(fd int) (cause icmpCause, by netip.Addr) {
	oob := make([]byte, 512)
	_, n, _, _, err := unix.Recvmsg(fd, nil, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err != nil {
		return icmpOther, netip.Addr{}
	}
	list, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return icmpOther, netip.Addr{}
	}
	for _, m := range list {
		four := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR
		six := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if four || six {
			return parseExtendedError(m.Data)
		}
	}
	return icmpOther, netip.Addr{}
}

// parseExtendedError parses a sock_extended_err and the sender's address behind it.
func parseExtendedError(b []byte) (cause icmpCause, by netip.Addr) {
	const size = int(unsafe.Sizeof(unix.SockExtendedErr{}))
	if len(b) < size+2 {
		return icmpOther, netip.Addr{}
	}
	origin, kind, code := b[4], b[5], b[6]
	switch sa := b[size:]; binary.NativeEndian.Uint16(sa) {
	case unix.AF_INET:
		if len(sa) >= 8 {
			by = netip.AddrFrom4([4]byte(sa[4:8]))
		}
	case unix.AF_INET6:
		if len(sa) >= 24 {
			by = netip.AddrFrom16([16]byte(sa[8:24])).Unmap()
		}
	}
	switch {
	case origin == unix.SO_EE_ORIGIN_ICMP && kind == 11, origin == unix.SO_EE_ORIGIN_ICMP6 && kind == 3:
		cause = icmpHopLimit
	case origin == unix.SO_EE_ORIGIN_ICMP && kind == 3 && (code == 2 || code == 3 || code == 9 || code == 10 || code == 13),
		origin == unix.SO_EE_ORIGIN_ICMP6 && kind == 1 && (code == 1 || code == 4 || code == 5 || code == 6):
		cause = icmpRejected
	}
	return cause, by
}

// isLocal reports whether an address is this host's.
func isLocal(ip netip.Addr) bool {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == ip {
			return true
		}
	}
	return false
}
