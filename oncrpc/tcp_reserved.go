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
// servers with secure exports take calls of AUTH_SYS from no other. The address is host
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
			case !inUse(err):
				return nil, err
			}
		}
	}
	return dialFrom(ctx, addr, 0)
}

// dialAgain connects from the port of an earlier connection: Linux's server takes a call
// that is sent again for a new one if it comes from another. If the port is in use by
// now, or 0, dialAgain is DialReserved.
func dialAgain(ctx context.Context, addr string, port int) (net.Conn, error) {
	if port != 0 {
		if nc, err := dialFrom(ctx, addr, port); err == nil || !inUse(err) {
			return nc, err
		}
	}
	return DialReserved(ctx, addr)
}

// dialFrom connects from a port of this host; 0 means any.
func dialFrom(ctx context.Context, addr string, port int) (net.Conn, error) {
	d := net.Dialer{Control: samehost.SpeedDial}
	if port != 0 {
		d.LocalAddr = &net.TCPAddr{Port: port}
	}
	return d.DialContext(ctx, "tcp", addr)
}

// inUse reports whether an attempt to connect has failed because of this end's port.
func inUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// portOf returns the port of this end of a connection over TCP, or 0.
func portOf(nc net.Conn) int {
	if at, ok := nc.LocalAddr().(*net.TCPAddr); ok {
		return at.Port
	}
	return 0
}
