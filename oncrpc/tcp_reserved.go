package oncrpc

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"syscall"

	"github.com/nfsrdma/nfsrdma/internal/samehost"
)

// DialReserved connects over TCP from a port below 1024 if this process may use one:
// servers with secure exports accept AUTH_SYS calls from no other. The address is host
// and port.
func DialReserved(ctx context.Context, addr string) (net.Conn, error) {
	if os.Geteuid() == 0 {
		for range portTries {
			nc, err := dialFrom(ctx, addr, 665+rand.IntN(1024-665)) // the range of Linux's client
			switch {
			case err == nil:
				return nc, nil
			case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
				return dialFrom(ctx, addr, 0)
			case !isPortInUse(err):
				return nil, err
			}
		}
	}
	return dialFrom(ctx, addr, 0)
}

// redialFrom connects from an earlier connection's port: Linux's server treats a
// retransmitted call as new if it comes from another port. If the port is now in use, or
// 0, it calls DialReserved.
func redialFrom(ctx context.Context, addr string, port int) (net.Conn, error) {
	if port != 0 {
		if nc, err := dialFrom(ctx, addr, port); err == nil || !isPortInUse(err) {
			return nc, err
		}
	}
	return DialReserved(ctx, addr)
}

// dialFrom connects from a local port; 0 means any.
func dialFrom(ctx context.Context, addr string, port int) (net.Conn, error) {
	d := net.Dialer{Control: samehost.ControlDial}
	if port != 0 {
		d.LocalAddr = &net.TCPAddr{Port: port}
	}
	return d.DialContext(ctx, "tcp", addr)
}

// isPortInUse reports whether an attempt to connect failed because the local port is in
// use.
func isPortInUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// localPort returns a TCP connection's local port, or 0.
func localPort(nc net.Conn) int {
	if at, ok := nc.LocalAddr().(*net.TCPAddr); ok {
		return at.Port
	}
	return 0
}
