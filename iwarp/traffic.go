package iwarp

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
)

var _ rdma.Meter = (*Conn)(nil)

// Traffic returns how many octets of TCP the peer has sent, and acknowledged
// (rdma.Meter).
func (c *Conn) Traffic() (in, out uint64) {
	if c.sock.tcp == nil {
		return 0, 0
	}
	c.sock.tcp.control(func(fd int) {
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			in, out = info.Bytes_received, info.Bytes_acked
		}
	})
	return in, out
}
