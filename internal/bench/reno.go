package main

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// The limits' connections are not paced, like package iwarp's connections within a
// host. If the host's default is BBR, it delays bursts, and even a stream. The
// sockets therefore get Reno before they are connected: a socket that once had BBR
// remains paced.

// listenReno listens on loopback. Accepted connections inherit Reno.
func listenReno() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c, err := l.(*net.TCPListener).SyscallConn()
	if err == nil {
		err = setReno("", "", c)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// dialReno connects to an address on this host.
func dialReno(addr string) (net.Conn, error) {
	d := net.Dialer{Control: setReno}
	return d.Dial("tcp", addr)
}

// setReno sets Reno, for net.Dialer.
func setReno(_, _ string, c syscall.RawConn) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	})
	return errors.Join(cerr, os.NewSyscallError("setsockopt", err))
}
