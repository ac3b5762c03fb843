package iwarp

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/alive"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
)

// errWouldBlock: the socket takes nothing at the moment.
var errWouldBlock = errors.New("iwarp: socket is full")

// A socket is the connection below MPA. On a kernel TCP socket it reads and
// writes gathered slices with one system call, and can try to write without
// waiting; any other net.Conn works too, more slowly.
type socket struct {
	nc    net.Conn
	raw   *rawSocket    // nil: not a TCP socket of the kernel
	stall time.Duration // stallTimeout

	record *recorder // nil: there is none

	mu  sync.Mutex
	end time.Time // when every use fails; zero: not yet known
}

func newSocket(nc net.Conn) *socket {
	alive.Watch(nc)
	return &socket{nc: nc, raw: newRawSocket(nc), stall: stallTimeout}
}

// mulpdu returns the largest ULPDU to send, in octets: one that fits a TCP
// segment, where there are such, with the Markers that stand in it (RFC 5044,
// Section 4.5).
func (s *socket) mulpdu(markers bool) int {
	if s.raw == nil {
		return mpa.MaxULPDU
	}
	return mpa.MULPDU(s.raw.emss(), markers)
}

// readv reads at least one octet into vec, of which the first element has room
// for some. mid tells that the peer owes the rest of an FPDU or of a message, and
// must not take for ever.
func (s *socket) readv(vec [][]byte, mid bool) (int, error) {
	n, err := s.read(vec, mid)
	if s.record != nil {
		s.record.received(time.Now(), n, vec)
	}
	return n, err
}

func (s *socket) read(vec [][]byte, mid bool) (int, error) {
	if mid {
		if s.raw != nil { // often it is there, and no deadline needed
			if n, err := s.raw.readv(vec, false); err != errWouldBlock {
				return n, err
			}
		}
		s.setReadDeadline(time.Now().Add(s.stall))
		defer s.setReadDeadline(time.Time{})
	}
	if s.raw == nil {
		return s.nc.Read(vec[0])
	}
	return s.raw.readv(vec, true)
}

// writev writes some of vec. Unless it may wait, it returns errWouldBlock
// where nothing can be written at once.
func (s *socket) writev(vec [][]byte, wait bool) (int, error) {
	if s.record == nil {
		return s.write(vec, wait)
	}
	now := time.Now() // an answer may be read before write returns
	n, err := s.write(vec, wait)
	s.record.sent(now, n, vec)
	return n, err
}

func (s *socket) write(vec [][]byte, wait bool) (int, error) {
	if s.raw != nil {
		if n, err := s.raw.writev(vec, false); err != errWouldBlock {
			return n, err
		}
	}
	if !wait {
		return 0, errWouldBlock
	}
	s.setWriteDeadline(time.Now().Add(s.stall))
	defer s.setWriteDeadline(time.Time{})
	if s.raw != nil {
		return s.raw.writev(vec, true)
	}
	bufs := append(net.Buffers(nil), vec...)
	n, err := bufs.WriteTo(s.nc)
	return int(n), err
}

// setReadDeadline bounds what is read next; zero means no bound.
func (s *socket) setReadDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end.IsZero() {
		_ = s.nc.SetReadDeadline(t) // an error shows at the next use of the socket
	}
}

// setWriteDeadline bounds what is written next; zero means no bound.
func (s *socket) setWriteDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end.IsZero() {
		_ = s.nc.SetWriteDeadline(t)
	}
}

// longPast is the time to expire at once.
var longPast = time.Unix(1, 0)

// expire makes every use of the socket fail from t on, or from an earlier time
// that was given before.
func (s *socket) expire(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end.IsZero() || t.Before(s.end) {
		s.end = t
		_ = s.nc.SetDeadline(t)
	}
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
