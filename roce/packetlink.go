package roce

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// etherType is the type of our IBA link packets on Ethernet: the first of the
// types that IEEE 802 reserves for experiments. No standard gives one: RoCE
// carries IBA's transport, which raw datagrams lack.
const etherType = 0x88b5

// minFrame is the least payload of Ethernet, in bytes: a shorter payload
// arrives with zeros behind it.
const minFrame = 46

// A PacketLink is a Link on an Ethernet interface, from one station to another.
// It needs CAP_NET_RAW.
type PacketLink struct {
	file *os.File
	raw  syscall.RawConn
	to   unix.SockaddrLinklayer
}

// OpenPacketLink opens a link on an interface to the station with a hardware
// address of 6 bytes, which may be Ethernet's broadcast.
func OpenPacketLink(iface string, to net.HardwareAddr) (*PacketLink, error) {
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return nil, err
	}
	if len(to) != 6 {
		return nil, fmt.Errorf("roce: %v is no address of Ethernet", to)
	}
	const protocol = etherType<<8&0xff00 | etherType>>8 // in the order of the network
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	l := &PacketLink{file: os.NewFile(uintptr(fd), "raw datagrams")}
	l.to = unix.SockaddrLinklayer{Protocol: protocol, Ifindex: i.Index, Halen: 6}
	copy(l.to.Addr[:], to)
	if err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: i.Index}); err == nil {
		l.raw, err = l.file.SyscallConn()
	}
	if err != nil {
		l.file.Close()
		return nil, err
	}
	return l, nil
}

// Send sends a packet.
func (l *PacketLink) Send(b []byte) error {
	var sent error
	err := l.raw.Write(func(fd uintptr) bool {
		sent = unix.Sendto(int(fd), b, 0, &l.to)
		return sent != unix.EAGAIN
	})
	if err != nil {
		return err
	}
	return sent
}

// Serve delivers the packets of other stations. It cuts the padding of a short
// packet to the length in its LRH.
func (l *PacketLink) Serve(deliver func([]byte)) error {
	b := make([]byte, packet.MaxRaw+packet.VCRCLen+1)
	for {
		var n int
		var from unix.Sockaddr
		var failed error
		err := l.raw.Read(func(fd uintptr) bool {
			n, from, failed = unix.Recvfrom(int(fd), b, 0)
			return failed != unix.EAGAIN
		})
		if err != nil {
			return rdma.ErrClosed
		}
		if failed != nil {
			return failed
		}
		if sa, ok := from.(*unix.SockaddrLinklayer); ok && sa.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if lrh, _, err := packet.ParseLRH(b[:n]); err == nil && n == minFrame {
			n = min(n, int(lrh.Words)*4+packet.VCRCLen)
		}
		deliver(b[:n])
	}
}

// Close ends Serve and Send.
func (l *PacketLink) Close() error { return l.file.Close() }
