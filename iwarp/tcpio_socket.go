package iwarp

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/keepalive"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
)

// A socket is the connection below MPA: a link, and the record of what goes over
// it.
type socket struct {
	link
	tcp *tcpLink // the link, or nil where that is none of the kernel's

	local, remote net.Addr
	record        *recorder // nil: there is none
}

// newSocket takes nc over.
func newSocket(nc net.Conn) *socket {
	keepalive.Watch(nc)
	s := &socket{local: nc.LocalAddr(), remote: nc.RemoteAddr()}
	if s.tcp = newTCPLink(nc, stallTimeout); s.tcp != nil {
		s.link = s.tcp
	} else {
		s.link = &netLink{nc: nc, stall: stallTimeout}
	}
	return s
}

// mulpdu returns the largest ULPDU to send, in octets: one that fits a TCP
// segment, where there are such, with the Markers that stand in it (RFC 5044,
// Section 4.5).
func (s *socket) mulpdu(markers bool) int {
	if s.tcp == nil {
		return mpa.MaxULPDU
	}
	return mpa.MULPDU(s.tcp.emss(), markers)
}

// readv is the link's read, recorded.
func (s *socket) readv(vec [][]byte, d *debt) (int, error) {
	n, err := s.read(vec, d)
	if s.record != nil {
		s.record.received(time.Now(), n, vec)
	}
	return n, err
}

// writev is the link's write, recorded.
func (s *socket) writev(vec [][]byte, wait bool) (int, error) {
	if s.record == nil {
		return s.write(vec, wait)
	}
	now := time.Now() // an answer may be read before write returns
	n, err := s.write(vec, wait)
	s.record.sent(now, n, vec)
	return n, err
}

// isReset tells whether the peer ended the connection without a FIN, or the
// socket was closed under its user.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}
