package iwarp

import (
	"errors"
	"io"

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

// errNoRecord reports that Config.Record was 0.
var errNoRecord = errors.New("iwarp: the connection keeps no record of what it sends and receives: Config.Record is 0")

// WriteRecord writes the latest traffic of the connection as a capture in pcap
// form, which Wireshark opens: TCP's opening, the start-up frames, and then as
// many FPDUs as Config.Record has room for. It may be called at any time, also
// from Handler.Closed and after the connection has ended.
//
// The packets are synthesized, with one FPDU in each. FPDUs that the record has
// dropped after the start-up frames leave no hole in the sequence numbers;
// IPv4's Identification counts them. Markers are removed, and the start-up
// frames and the CRCs are adjusted accordingly, since Wireshark 4.0 cannot
// parse a stream with Markers.
func (c *Conn) WriteRecord(w io.Writer) error {
	r := c.sock.record
	if r == nil {
		return errNoRecord
	}
	return r.Write(w)
}
