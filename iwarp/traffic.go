package iwarp

import (
	"github.com/nfsrdma/nfsrdma/internal/keepalive"
	"github.com/nfsrdma/nfsrdma/rdma"
)

var _ rdma.ByteCounter = (*Conn)(nil)

// Traffic returns how many bytes of TCP the peer has sent, and how many it has
// acknowledged (rdma.ByteCounter).
func (c *Conn) Traffic() (in, out uint64) {
	if c.sock.tcp == nil {
		return 0, 0
	}
	c.sock.tcp.control(func(fd int) { in, out = keepalive.TrafficOf(fd) })
	return in, out
}
