package oncrpc

import (
	"cmp"
	"context"
	"errors"
	"net"

	"github.com/nfsrdma/nfsrdma/internal/keepalive"
)

// A TCPLineConfig configures a Line of TCP connections.
type TCPLineConfig struct {
	// Conn configures each connection.
	Conn ClientConfig

	// Secure, if not nil, makes a new connection secure before the first call, as
	// rpctls.Client.Secure does, and takes over nc, even if it fails. Its failure is
	// that of the attempt to connect.
	Secure func(ctx context.Context, nc net.Conn) (net.Conn, error)

	// Line is the rest. Dial, Server and Closed are set by DialTCPLine: calls that
	// are lost with their connection fail with ErrClosed.
	Line LineConfig
}

// DialTCPLine makes a Line of TCP connections to a server, whose address is host and
// port, all from the same port of this end, if possible a reserved one (DialReserved).
// It tries once, and returns the error of package net, or of Secure.
func DialTCPLine(ctx context.Context, addr string, cfg TCPLineConfig) (*Line, error) {
	line := cfg.Line
	line.Server, line.Closed = addr, ErrClosed
	port := 0 // of this end
	line.Dial = func(ctx context.Context, l *Line) (LineConn, error) {
		nc, err := dialAgain(ctx, addr, port)
		if err != nil {
			return nil, err
		}
		port = portOf(nc)
		if cfg.Secure != nil {
			if nc, err = cfg.Secure(ctx, nc); err != nil {
				return nil, err
			}
		}
		return tcpLineConn{newTCPClient(nc, cfg.Conn, l.XIDs())}, nil
	}
	return NewLine(ctx, line)
}

// A tcpLineConn is a connection of a Line of TCP connections (LineConn).
type tcpLineConn struct{ *TCPClient }

func (c tcpLineConn) Transmit(ctx context.Context, x *Exchange, xid uint32) (uint32, error) {
	return c.call(ctx, x, xid)
}

func (c tcpLineConn) Received() uint64          { return c.received.Load() }
func (c tcpLineConn) Traffic() (in, out uint64) { return keepalive.Traffic(c.nc) }
func (c tcpLineConn) Done() <-chan struct{}     { return c.over }

func (c tcpLineConn) CheckOverdue() (longest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range c.calls {
		longest = max(longest, c.checks-cl.checks)
	}
	c.checks++
	return longest
}

func (c tcpLineConn) Cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Abort does not wait for the server, which may be silent.
func (c tcpLineConn) Abort(cause error) {
	abrupt(c.nc)
	c.fail(cmp.Or(cause, errors.New("closed")))
}

// abrupt makes the next Close of a connection reset it, after which its port is free.
func abrupt(nc net.Conn) {
	if l, ok := nc.(interface{ SetLinger(seconds int) error }); ok {
		_ = l.SetLinger(0) // fails on a connection that has ended
	}
}
