package oncrpc

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
)

// DialReserved connects over TCP from a port below 1024 if this process may use one:
// servers with secure exports take calls of AUTH_SYS from no other. The address is host
// and port.
func DialReserved(ctx context.Context, addr string) (net.Conn, error) {
	if os.Geteuid() == 0 {
		for range portTries {
			d := net.Dialer{LocalAddr: &net.TCPAddr{Port: 665 + rand.IntN(1024-665)}} // the range of Linux's client
			nc, err := d.DialContext(ctx, "tcp", addr)
			switch {
			case err == nil:
				return nc, nil
			case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			case !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL):
				return nil, err
			}
		}
	}
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}
