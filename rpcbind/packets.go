package rpcbind

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// packets takes calls over UDP, one datagram each (RFC 5531, Section 10). A
// reply leaves from the address at which its call arrived, because callers
// insist on that.
type packets struct {
	*net.UDPConn
	at     netip.AddrPort
	excess budget
}

func listenPackets(addr string) (*packets, error) {
	c := net.ListenConfig{Control: tellArrival}
	pc, err := c.ListenPacket(context.Background(), "udp", addr)
	if err != nil {
		return nil, err
	}
	udp := pc.(*net.UDPConn)
	return &packets{UDPConn: udp, at: udp.LocalAddr().(*net.UDPAddr).AddrPort()}, nil
}

// tellArrival makes the kernel report the address at which each datagram
// arrives.
func tellArrival(_, _ string, c syscall.RawConn) error {
	var err error
	return errors.Join(c.Control(func(fd uintptr) {
		var domain int
		if domain, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil {
			return
		}
		if domain == unix.AF_INET {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
			return
		}
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	}), err)
}

// serve answers calls one after the other, because no reply takes time, until
// the socket is closed.
func (c *packets) serve(s oncrpc.Service) error {
	call, head, oob := make([]byte, maxPacket), make([]byte, 0, maxPacket), make([]byte, oobLen)
	for {
		n, oobn, _, from, err := c.ReadMsgUDPAddrPort(call, oob)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		local := arrival(oob[:oobn])
		peer := oncrpc.Peer{
			Network: "udp",
			Addr:    netip.AddrPortFrom(from.Addr().Unmap(), from.Port()),
			Local:   netip.AddrPortFrom(local.Unmap(), c.at.Port()),
		}
		req := oncrpc.Request{Msg: call[:n], Peer: &peer, MaxReply: maxPacket}
		rep := oncrpc.Reply{Head: head}
		if s.Serve(context.Background(), &req, &rep) && c.excess.allow(len(rep.Head)-n, time.Now()) {
			// A caller without a reply asks again. The write fails for a
			// broadcast call, because the kernel does not send from a broadcast
			// address.
			_, _, _ = c.WriteMsgUDPAddrPort(rep.Head, departure(local), from)
		}
	}
}

// oobLen has room for one message about the arrival.
var oobLen = unix.CmsgSpace(unix.SizeofInet6Pktinfo)

// arrival returns the address at which a datagram arrived, or zero if the
// kernel does not report it.
func arrival(oob []byte) netip.Addr {
	h, data, _, err := unix.ParseOneSocketControlMessage(oob)
	switch {
	case err != nil:
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
		return netip.AddrFrom4([4]byte(data[8:12])) // struct in_pktinfo, ipi_addr
	case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
		return netip.AddrFrom16([16]byte(data[:16])) // struct in6_pktinfo, ipi6_addr
	}
	return netip.Addr{}
}

// departure makes a datagram leave from an address, by any interface.
func departure(a netip.Addr) []byte {
	switch {
	case a.Is4():
		return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: a.As4()})
	case a.Is6():
		return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: a.As16()})
	}
	return nil
}

// A budget bounds the bytes by which replies exceed their calls: see
// excessRate.
type budget struct {
	spent int // bytes
	as    time.Time
}

// allow reports whether a reply that is n bytes longer than its call may leave.
func (b *budget) allow(n int, now time.Time) bool {
	if n <= 0 {
		return true
	}
	since := max(0, min(now.Sub(b.as), time.Minute))
	b.spent, b.as = max(0, b.spent-int(since.Seconds()*excessRate)), now
	if b.spent+n > excessBurst {
		return false
	}
	b.spent += n
	return true
}
