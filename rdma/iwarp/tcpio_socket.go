package iwarp

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/keepalive"
	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/recorder"
)

// A socket is the connection below MPA: a link, and the recorder for its
// traffic.
type socket struct {
	link
	tcp *tcpLink // the link, or nil if it is not a kernel socket

	mapped   bool // only the kernel reads the data that is sent
	mappings mappingGuard
	meter    keepalive.Meter

	nc            net.Conn
	local, remote net.Addr
	record        *recorder.Recorder // nil: no record
	tenure        *tenure.Tenure     // nil: no end
}

// newSocket returns a socket that owns nc.
func newSocket(nc net.Conn) *socket {
	keepalive.Watch(nc)
	s := &socket{nc: nc, local: nc.LocalAddr(), remote: nc.RemoteAddr()}
	if s.tcp = newTCPLink(nc, stallTimeout); s.tcp != nil {
		s.link, s.mapped, s.tcp.rd.mappings = s.tcp, true, &s.mappings
		return s
	}
	s.link = newNetLink(nc, stallTimeout)
	if over, ok := nc.(interface{ SendsMapped() bool }); ok {
		s.mapped = over.SendsMapped() // TLS in the kernel
	}
	return s
}

// tcpState returns the TCP connection's state. ok is false if the query is blocked by a disk.
func (s *socket) tcpState() (state keepalive.State, ok bool) {
	return s.meter.Ask(func() (state keepalive.State) {
		if s.tcp == nil {
			return keepalive.StateOf(s.nc)
		}
		s.tcp.withFD(func(fd int) { state = keepalive.StateOfFD(fd) })
		return state
	})
}

// mulpdu returns the largest ULPDU to send, in bytes. If the TCP segment size
// is known, the ULPDU fits a segment, with its Markers (RFC 5044, Section 4.5).
func (s *socket) mulpdu(markers bool) int {
	if s.tcp == nil {
		return mpa.MaxULPDU
	}
	return mpa.MULPDU(s.tcp.emss(), markers)
}

// readv reads from the link and records the bytes.
func (s *socket) readv(vec [][]byte, d *waitBudget) (int, error) {
	n, err := s.read(vec, d)
	if s.record != nil {
		s.record.Received(time.Now(), n, vec)
	}
	return s.checkTenure(n, err)
}

// readvNow reads from the link without waiting, and records the bytes.
func (s *socket) readvNow(vec [][]byte) (int, error) {
	n, err := s.tcp.readNow(vec)
	if s.record != nil {
		s.record.Received(time.Now(), n, vec)
	}
	return s.checkTenure(n, err)
}

// checkTenure returns the results of a read, or tenure.ErrOver: the bytes may have waited in the
// socket while the process was stopped.
func (s *socket) checkTenure(n int, err error) (int, error) {
	if s.tenure.Over() {
		return 0, tenure.ErrOver
	}
	return n, err
}

// writev writes to the link and records the bytes.
func (s *socket) writev(vec [][]byte, wait bool) (int, error) {
	if s.record == nil {
		return s.write(vec, wait)
	}
	now := time.Now() // a reply may be read before write returns
	n, err := s.write(vec, wait)
	s.record.Sent(now, n, vec)
	return n, err
}

// isReset reports whether the peer closed the connection without a FIN, or the
// socket was closed locally while in use.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}
