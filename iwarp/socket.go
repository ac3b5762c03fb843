package iwarp

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
)

// errWouldBlock: the socket takes nothing at the moment.
var errWouldBlock = errors.New("iwarp: socket is full")

// A socket is the connection below MPA. On a kernel TCP socket it reads and
// writes gathered slices with one system call, and can try to write without
// waiting; any other net.Conn works too, more slowly.
type socket struct {
	nc  net.Conn
	raw *rawSocket // nil: not a TCP socket of the kernel

	mu      sync.Mutex
	expired bool // no deadline may be moved any more
}

func newSocket(nc net.Conn) *socket {
	return &socket{nc: nc, raw: newRawSocket(nc)}
}

// mulpdu returns the largest ULPDU to send, in octets: one that fits a TCP
// segment, where there are such (RFC 5044, Section 4.5).
func (s *socket) mulpdu() int {
	if s.raw == nil {
		return mpa.MaxULPDU
	}
	return mpa.MULPDU(s.raw.emss())
}

// readv reads at least one octet into a, and then into b what comes along.
// mid tells that the peer owes the rest of an FPDU, and must not take for
// ever.
func (s *socket) readv(a, b []byte, mid bool) (int, error) {
	if s.raw == nil {
		if len(a) == 0 {
			a = b
		}
		if mid {
			s.setDeadline(s.nc.SetReadDeadline, time.Now().Add(stallTimeout))
			defer s.setDeadline(s.nc.SetReadDeadline, time.Time{})
		}
		return s.nc.Read(a)
	}
	n, err := s.raw.readv(a, b, false)
	if err != errWouldBlock {
		return n, err
	}
	if mid {
		s.setDeadline(s.nc.SetReadDeadline, time.Now().Add(stallTimeout))
		defer s.setDeadline(s.nc.SetReadDeadline, time.Time{})
	}
	return s.raw.readv(a, b, true)
}

// writev writes some of vec. Unless it may wait, it returns errWouldBlock
// where nothing can be written at once.
func (s *socket) writev(vec [][]byte, wait bool) (int, error) {
	if s.raw != nil {
		n, err := s.raw.writev(vec, false)
		if err != errWouldBlock || !wait {
			return n, err
		}
		s.setDeadline(s.nc.SetWriteDeadline, time.Now().Add(stallTimeout))
		return s.raw.writev(vec, true)
	}
	if !wait {
		return 0, errWouldBlock
	}
	s.setDeadline(s.nc.SetWriteDeadline, time.Now().Add(stallTimeout))
	bufs := append(net.Buffers(nil), vec...)
	n, err := bufs.WriteTo(s.nc)
	return int(n), err
}

// setDeadline calls set, unless the socket has expired.
func (s *socket) setDeadline(set func(time.Time) error, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.expired {
		_ = set(t) // an error shows at the next use of the socket
	}
}

// expire makes every use of the socket fail from t on.
func (s *socket) expire(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = true
	_ = s.nc.SetDeadline(t)
}

// closeWrite sends a FIN where the connection can.
func (s *socket) closeWrite() {
	if h, ok := s.nc.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
		return
	}
	_ = s.nc.Close()
}

// discard reads until the peer closes its half or the socket expires, so that
// the close does not reset what the peer has yet to read.
func (s *socket) discard(scratch []byte) {
	for {
		if _, err := s.nc.Read(scratch); err != nil {
			return
		}
	}
}

// isTimeout tells whether the socket's deadline passed.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// isReset tells whether the peer ended the connection without a FIN, or the
// socket was closed under its user.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}
