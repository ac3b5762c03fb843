// Package quickack makes TCP acknowledge the first part of a message at once.
//
// A sender with Nagle's algorithm on (RFC 9293, Section 3.7.4) that writes a
// message in two small parts sends the second one when the first one is
// acknowledged. The receiver delays that, by 40 ms in Linux, because its reply
// could carry the acknowledgement. But there is no reply to half a message.
//
// The package must not depend on the form of messages.
package quickack

import (
	"net"

	"golang.org/x/sys/unix"
)

// Few is the minimum number of bytes in a read that TCP acknowledges at once by
// itself: more than two Ethernet segments.
const Few = 4 << 10

// Send sends the acknowledgement that TCP has delayed, if any.
func Send(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) // fails on a closed connection
}

// A Reader reads a net.Conn. If a read within a message has emptied the socket, and
// returned few bytes, the Reader sends an acknowledgement before the next read.
// Only one goroutine may use it.
type Reader struct {
	// Within must be true while the last bytes read are within a message.
	Within bool

	// Ack sends the acknowledgement; nil if the connection is not TCP.
	Ack func()

	nc       net.Conn
	wasShort bool // the last read emptied the socket, and returned few bytes
}

// NewReader returns a Reader for nc, which sends no acknowledgement unless nc is a
// TCP connection.
func NewReader(nc net.Conn) *Reader {
	r := &Reader{nc: nc}
	if t, ok := nc.(*net.TCPConn); ok {
		if raw, err := t.SyscallConn(); err == nil {
			control := func(fd uintptr) { Send(int(fd)) }
			r.Ack = func() { _ = raw.Control(control) }
		}
	}
	return r
}

// Read reads from the connection (io.Reader).
func (r *Reader) Read(p []byte) (int, error) {
	if r.Within && r.wasShort && r.Ack != nil {
		r.Ack()
	}
	n, err := r.nc.Read(p)
	r.wasShort = n < min(len(p), Few)
	return n, err
}
