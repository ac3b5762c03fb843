package roce

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// etherType is the Ethernet type for IBA link packets: the first type that IEEE
// 802 reserves for experiments. No standard defines one: RoCE carries IBA's
// transport, which raw datagrams lack.
const etherType = 0x88b5

// minFrame is Ethernet's minimum payload, in bytes: a shorter payload arrives
// padded with zeros.
const minFrame = 46

// A PacketLink is a Link on an Ethernet interface, from one station to another.
// It needs CAP_NET_RAW.
type PacketLink struct {
	file *os.File
	raw  syscall.RawConn
	to   unix.SockaddrLinklayer
}

// OpenPacketLink opens a link on an interface to the station with a 6-byte
// hardware address, which may be Ethernet's broadcast.
func OpenPacketLink(iface string, to net.HardwareAddr) (*PacketLink, error) {
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return nil, err
	}
	if len(to) != 6 {
		return nil, fmt.Errorf("roce: %v is no address of Ethernet", to)
	}
	const protocol = etherType<<8&0xff00 | etherType>>8 // in network byte order
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

// Serve delivers packets from other stations. It truncates a short packet's
// padding to the length in its LRH.
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
