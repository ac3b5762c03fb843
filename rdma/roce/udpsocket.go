package roce

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A udpSocket is bound to the port's address, or to a group's.
type udpSocket struct {
	local    netip.Addr
	file     *os.File
	raw      syscall.RawConn
	recvMsgs mmsgBatch
	sendMsgs sync.Pool // holds *mmsgBatch
}

// openUDP opens a socket bound to an address on an interface. For a group it
// joins the group there; sockets from several ports and processes may do so.
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
		err = joinGroup(fd, local, iface)
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
	s.recvMsgs.init(unix.SYS_RECVMMSG, recvBatch, min(mtu, packet.MaxHeaders+4096+packet.ICRCLen), scope)
	s.sendMsgs.New = func() any { m := new(mmsgBatch); m.init(unix.SYS_SENDMMSG, sendBatch, 0, scope); return m }
	return s, nil
}

// A socketOption is an option for setsockopt(2).
type socketOption struct{ level, name, value int }

// v4Options: packets are never fragmented, so that their identification is 0.
// The UDP checksum stays 0, because the ICRC replaces it. Received packets
// report their TTL and ToS. Only multicast packets to groups that this socket
// has joined are received.
var v4Options = []socketOption{
	{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO},
	{unix.SOL_SOCKET, unix.SO_NO_CHECK, 1},
	{unix.IPPROTO_IP, unix.IP_RECVTTL, 1},
	{unix.IPPROTO_IP, unix.IP_RECVTOS, 1},
	{unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0},
}

func v6Options(iface *net.Interface) []socketOption {
	return []socketOption{
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

func setOptions(fd int, options []socketOption) error {
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

// joinGroup adds the socket to a group on an interface. The socket shares the group's port with
// others.
func joinGroup(fd int, group netip.Addr, iface *net.Interface) error {
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

// sendDatagrams sends datagrams and waits while the socket buffer is full.
func (s *udpSocket) sendDatagrams(d []Datagram) (sent int, err error) {
	m := s.sendMsgs.Get().(*mmsgBatch)
	defer s.sendMsgs.Put(m)
	defer m.dropReferences()
	for sent < len(d) {
		m.loadDatagrams(d[sent:])
		if err := s.raw.Write(m.tryCall); err != nil {
			return sent, err
		}
		if m.errno != 0 {
			return sent, os.NewSyscallError("sendmmsg", m.errno)
		}
		sent += m.doneCount
	}
	return sent, nil
}

// receiveDatagrams waits for datagrams, which the caller owns until the next call.
func (s *udpSocket) receiveDatagrams() ([]Datagram, error) {
	s.recvMsgs.prepareReceive()
	if err := s.raw.Read(s.recvMsgs.tryCall); err != nil {
		return nil, err
	}
	if s.recvMsgs.errno != 0 {
		return nil, os.NewSyscallError("recvmmsg", s.recvMsgs.errno)
	}
	return s.recvMsgs.receivedDatagrams(s.recvMsgs.doneCount, s.local), nil
}

func (s *udpSocket) close() error { return s.file.Close() }
