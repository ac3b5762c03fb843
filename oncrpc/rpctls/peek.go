package rpctls

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// peekByte waits for a TCP connection's first byte, and does not consume it.
func peekByte(nc net.Conn) (first byte, err error) {
	t, ok := nc.(syscall.Conn)
	if !ok {
		return 0, errors.New("rpctls: not a TCP connection")
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return 0, err
	}
	var b [1]byte
	var n int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, _, failed = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return failed != unix.EAGAIN && failed != unix.EINTR
	})
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, failed
	case n == 0:
		return 0, io.EOF
	}
	return b[0], nil
}
