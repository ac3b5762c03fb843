package iwarp

import (
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A rawSocket calls readv and writev on a TCP socket itself: package net has
// no gathering read, and no write that does not wait.
type rawSocket struct {
	raw syscall.RawConn
	rd  vectorCall // readv
	wr  vectorCall // writev
}

// A vectorCall is one system call and its result. Its function is made once,
// so that a call allocates nothing.
type vectorCall struct {
	do    func(func(fd uintptr) bool) error // Read or Write of the RawConn
	trap  uintptr
	wait  bool
	iov   []unix.Iovec
	n     int
	errno syscall.Errno
	fn    func(fd uintptr) bool
}

func newRawSocket(nc net.Conn) *rawSocket {
	t, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil
	}
	s := &rawSocket{raw: raw}
	s.rd.init(raw.Read, unix.SYS_READV)
	s.wr.init(raw.Write, unix.SYS_WRITEV)
	return s
}

func (c *vectorCall) init(do func(func(uintptr) bool) error, trap uintptr) {
	c.do, c.trap, c.fn = do, trap, c.call
}

// call is what the net package's poller runs: false means wait and come back.
func (c *vectorCall) call(fd uintptr) bool {
	for {
		n, _, errno := unix.Syscall(c.trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(c.iov))), uintptr(len(c.iov)))
		switch errno {
		case 0:
			c.n, c.errno = int(n), 0
			return true
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			c.n, c.errno = 0, errno
			return !c.wait
		}
		c.n, c.errno = 0, errno
		return true
	}
}

func (c *vectorCall) add(b []byte) {
	if len(b) == 0 {
		return
	}
	v := unix.Iovec{Base: unsafe.SliceData(b)}
	v.SetLen(len(b))
	c.iov = append(c.iov, v)
}

// run makes the call with the vectors added.
func (c *vectorCall) run(wait bool) (int, error) {
	c.wait = wait
	err := c.do(c.fn)
	clear(c.iov) // hold no caller's memory
	c.iov = c.iov[:0]
	switch {
	case err != nil:
		return 0, err
	case c.errno == unix.EAGAIN:
		return 0, errWouldBlock
	case c.errno != 0:
		return 0, c.errno
	}
	return c.n, nil
}

func (s *rawSocket) readv(vec [][]byte, wait bool) (int, error) {
	for _, b := range vec {
		s.rd.add(b)
	}
	n, err := s.rd.run(wait)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

func (s *rawSocket) writev(vec [][]byte, wait bool) (int, error) {
	for _, b := range vec[:min(len(vec), maxVectors)] {
		s.wr.add(b)
	}
	return s.wr.run(wait)
}

// emss returns the connection's maximum segment size in octets (RFC 5044,
// Section 4.5), or 0 where it cannot be had.
func (s *rawSocket) emss() int {
	size := 0
	_ = s.raw.Control(func(fd uintptr) {
		size, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	})
	return size
}
