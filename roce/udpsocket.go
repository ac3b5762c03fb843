package roce

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// A udpSocket is bound to the port's address, or to a group's.
type udpSocket struct {
	local netip.Addr
	file  *os.File
	raw   syscall.RawConn
	in    messages
	out   sync.Pool // of *messages
}

// openUDP opens a socket bound to an address on an interface. It joins a group
// there; sockets of several ports and processes may do so.
func openUDP(local netip.Addr, iface *net.Interface, group bool) (*udpSocket, error) {
	family := unix.AF_INET6
	if local.Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	options := v6Options(iface)
	if local.Is4() {
		options = v4Options
	}
	if err = setOptions(fd, options); err == nil && local.Is4() {
		err = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(iface.Index)})
	}
	if err == nil && group {
		err = join(fd, local, iface)
	}
	if err == nil {
		err = unix.Bind(fd, sockaddr(local, iface))
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	s := &udpSocket{local: local.WithZone(""), file: os.NewFile(uintptr(fd), "roce")}
	if s.raw, err = s.file.SyscallConn(); err != nil {
		s.file.Close()
		return nil, err
	}
	mtu := min(iface.MTU, 1<<16-1)
	scope := uint32(iface.Index)
	s.in.init(unix.SYS_RECVMMSG, recvBatch, min(mtu, packet.MaxHeaders+4096+packet.ICRCLen), scope)
	s.out.New = func() any { m := new(messages); m.init(unix.SYS_SENDMMSG, sendBatch, 0, scope); return m }
	return s, nil
}

// An option is one of setsockopt(2).
type option struct{ level, name, value int }

// v4Options: packets are never fragmented, so that their identification is 0.
// The checksum of UDP stays 0, because the ICRC does its work. Received packets
// report their TTL and ToS. Of multicast, only packets to groups that this
// socket has joined come in.
var v4Options = []option{
	{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO},
	{unix.SOL_SOCKET, unix.SO_NO_CHECK, 1},
	{unix.IPPROTO_IP, unix.IP_RECVTTL, 1},
	{unix.IPPROTO_IP, unix.IP_RECVTOS, 1},
	{unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0},
}

func v6Options(iface *net.Interface) []option {
	return []option{
		{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
		{unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO},
		{unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_TX, 1},
		{unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1},
		{unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1},
		{unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1},
		{unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_ALL, 0},
		{unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, iface.Index},
	}
}

func setOptions(fd int, options []option) error {
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return fmt.Errorf("setsockopt %d, %d: %w", o.level, o.name, err)
		}
	}
	// An unprivileged process gets the largest buffer that the host allows.
	for _, o := range [...][2]int{{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF}, {unix.SO_SNDBUFFORCE, unix.SO_SNDBUF}} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, o[0], socketBuffer) != nil {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, o[1], socketBuffer); err != nil {
				return err
			}
		}
	}
	return nil
}

// join makes the socket a member of a group on an interface. The socket shares
// the group's port with others.
func join(fd int, group netip.Addr, iface *net.Interface) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if group.Is4() {
		return unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(iface.Index)})
	}
	return unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
		&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(iface.Index)})
}

// sockaddr returns the address with RoCEv2's port.
func sockaddr(a netip.Addr, iface *net.Interface) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Port: packet.Port, Addr: a.As4()}
	}
	sa := &unix.SockaddrInet6{Port: packet.Port, Addr: a.As16()}
	if a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() {
		sa.ZoneId = uint32(iface.Index)
	}
	return sa
}

// send sends datagrams and waits while the socket has no room.
func (s *udpSocket) send(d []Datagram) (sent int, err error) {
	m := s.out.Get().(*messages)
	defer s.out.Put(m)
	defer m.unload()
	for sent < len(d) {
		m.load(d[sent:])
		if err := s.raw.Write(m.try); err != nil {
			return sent, err
		}
		if m.errno != 0 {
			return sent, os.NewSyscallError("sendmmsg", m.errno)
		}
		sent += m.done
	}
	return sent, nil
}

// receive waits for datagrams, which the caller owns until the next call.
func (s *udpSocket) receive() ([]Datagram, error) {
	s.in.ready()
	if err := s.raw.Read(s.in.try); err != nil {
		return nil, err
	}
	if s.in.errno != 0 {
		return nil, os.NewSyscallError("recvmmsg", s.in.errno)
	}
	return s.in.datagrams(s.in.done, s.local), nil
}

func (s *udpSocket) close() error { return s.file.Close() }
