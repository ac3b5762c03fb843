package main

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Connections of the limits are not paced, just as those of package iwarp
// within a host. If the host's own choice is BBR, it delays bursts, and even a
// stream. The sockets therefore get Reno before they are connected: a socket
// that has once had BBR remains paced.

// listen listens on loopback. Accepted connections inherit Reno.
func listen() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c, err := l.(*net.TCPListener).SyscallConn()
	if err == nil {
		err = reno("", "", c)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// dial connects to an address of this host.
func dial(addr string) (net.Conn, error) {
	d := net.Dialer{Control: reno}
	return d.Dial("tcp", addr)
}

// reno sets Reno, for net.Dialer.
func reno(_, _ string, c syscall.RawConn) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	})
	return errors.Join(cerr, os.NewSyscallError("setsockopt", err))
}
