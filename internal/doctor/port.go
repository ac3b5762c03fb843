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

// A PortState says how a TCP port answers.
type PortState int

// The states of ports.
const (
	Open        PortState = iota
	Refused               // by an RST: nothing listens there, or a firewall says so
	Rejected              // by a firewall, with a message of ICMP
	Silent                // something drops the packets
	DroppedHere           // this host's own firewall drops the packets
	Unanswered            // on this host's network, no host has the address
	NoRoute               // from this host, or from a router
	Forbidden             // by this host
	Unusable              // for another reason
)

// A Port is the answer of a TCP port.
type Port struct {
	Addr  netip.AddrPort
	State PortState
	By    netip.Addr // the sender of a message of ICMP; invalid without one
	Err   error      // nil if Open
}

// TryPort connects to a port, and hangs up. Without an answer it waits for wait, in which
// the kernel should have sent a second packet, 1 s after the first.
func TryPort(ctx context.Context, addr netip.AddrPort, wait time.Duration) Port {
	p, _ := tryPort(ctx, addr, wait, 0)
	return p
}

// tryPort is TryPort with a limit of hops, unless that is 0. late reports that the limit
// was reached.
func tryPort(ctx context.Context, addr netip.AddrPort, wait time.Duration, hops int) (p Port, late bool) {
	p = Port{Addr: addr}
	fd, sa, err := socket(addr, hops)
	if err != nil {
		return p.unusable(err), false
	}
	defer unix.Close(fd)
	if err = unix.Connect(fd, sa); err == unix.EINPROGRESS {
		err = await(ctx, fd, wait)
	}
	p.Err = err
	cause, by := errorQueue(fd)
	p.By = by
	switch {
	case err == nil:
	case errors.Is(err, unix.ETIMEDOUT):
		p.State = Silent
		if sent, lost := retransmits(fd); lost && !sent {
			p.State = DroppedHere
		}
	case cause == icmpLate:
		return p, true
	case cause == icmpRejected:
		p.State = Rejected
	case errors.Is(err, unix.ECONNREFUSED):
		p.State = Refused
	case errors.Is(err, unix.EHOSTUNREACH) && by.IsValid() && isLocal(by):
		p.State = Unanswered
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH):
		p.State = NoRoute
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.EINVAL):
		p.State = Forbidden
	default:
		p.State = Unusable
	}
	return p, false
}

func (p Port) unusable(err error) Port {
	p.State, p.Err = Unusable, err
	return p
}

// socket returns a socket that reports messages of ICMP, and the address for it.
func socket(addr netip.AddrPort, hops int) (fd int, sa unix.Sockaddr, err error) {
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

// tick is how often await looks at its context.
const tick = 100 * time.Millisecond

// await returns the result of a connect that has begun.
func await(ctx context.Context, fd int, wait time.Duration) error {
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

// retransmits reports whether the kernel has sent the latest retransmission, and whether
// it has tried to. A local firewall fails the attempt, and the kernel tells no one.
func retransmits(fd int) (sent, tried bool) {
	i, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && i.Retrans > 0, err == nil && i.Total_retrans > 0
}

// An icmpCause is the meaning of a message of ICMP.
type icmpCause int

const (
	icmpOther icmpCause = iota
	icmpLate            // the limit of hops was reached
	icmpRejected
)

// errorQueue returns the cause and the sender of the message of ICMP that ended a
// connect, if one did (ip(7), IP_RECVERR).
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
			return extended(m.Data)
		}
	}
	return icmpOther, netip.Addr{}
}

// extended parses a sock_extended_err and the sender's address behind it.
func extended(b []byte) (cause icmpCause, by netip.Addr) {
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
		cause = icmpLate
	case origin == unix.SO_EE_ORIGIN_ICMP && kind == 3 && (code == 2 || code == 3 || code == 9 || code == 10 || code == 13),
		origin == unix.SO_EE_ORIGIN_ICMP6 && kind == 1 && (code == 1 || code == 4 || code == 5 || code == 6):
		cause = icmpRejected
	}
	return cause, by
}

// isLocal reports whether this host has an address.
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
