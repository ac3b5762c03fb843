package iwarp

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/keepalive"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/recorder"
)

// A socket is the connection below MPA: a link, and the record of its traffic.
type socket struct {
	link
	tcp *tcpLink // the link, or nil if it is not a kernel socket

	mapped bool // only the kernel looks at the data that are sent
	lends  lending
	meter  keepalive.Meter

	nc            net.Conn
	local, remote net.Addr
	record        *recorder.Recorder // nil: no record
}

// newSocket takes over nc.
func newSocket(nc net.Conn) *socket {
	keepalive.Watch(nc)
	s := &socket{nc: nc, local: nc.LocalAddr(), remote: nc.RemoteAddr()}
	if s.tcp = newTCPLink(nc, stallTimeout); s.tcp != nil {
		s.link, s.mapped, s.tcp.rd.lends = s.tcp, true, &s.lends
		return s
	}
	s.link = newNetLink(nc, stallTimeout)
	if over, ok := nc.(interface{ SendsMapped() bool }); ok {
		s.mapped = over.SendsMapped() // TLS in the kernel
	}
	return s
}

// traffic returns what Conn.Traffic does. ok is false if the kernel cannot tell for a disk.
func (s *socket) traffic() (in, out uint64, ok bool) {
	return s.meter.Ask(func() (in, out uint64) {
		if s.tcp == nil {
			return keepalive.Traffic(s.nc)
		}
		s.tcp.control(func(fd int) { in, out = keepalive.TrafficOf(fd) })
		return in, out
	})
}

// mulpdu returns the largest ULPDU to send, in bytes. If TCP segments are
// known, the ULPDU fits a segment, with its Markers (RFC 5044, Section 4.5).
func (s *socket) mulpdu(markers bool) int {
	if s.tcp == nil {
		return mpa.MaxULPDU
	}
	return mpa.MULPDU(s.tcp.emss(), markers)
}

// readv is the link's read, with recording.
func (s *socket) readv(vec [][]byte, d *debt) (int, error) {
	n, err := s.read(vec, d)
	if s.record != nil {
		s.record.Received(time.Now(), n, vec)
	}
	return n, err
}

// readvNow is the link's readNow, with recording.
func (s *socket) readvNow(vec [][]byte) (int, error) {
	n, err := s.tcp.readNow(vec)
	if s.record != nil {
		s.record.Received(time.Now(), n, vec)
	}
	return n, err
}

// writev is the link's write, with recording.
func (s *socket) writev(vec [][]byte, wait bool) (int, error) {
	if s.record == nil {
		return s.write(vec, wait)
	}
	now := time.Now() // an answer may be read before write returns
	n, err := s.write(vec, wait)
	s.record.Sent(now, n, vec)
	return n, err
}

// isReset reports whether the peer ended the connection without a FIN, or the
// socket was closed locally during its use.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}
