package oncrpc

import (
	"cmp"
	"context"
	"errors"
	"net"

	"github.com/nfsrdma/nfsrdma/internal/keepalive"
)

// A TCPLineConfig configures a Line over TCP.
type TCPLineConfig struct {
	// Conn configures each connection.
	Conn ClientConfig

	// Secure, if not nil, makes a new connection secure before the first call, as
	// rpctls.Client.Secure does, and takes over nc, even if it fails. If it fails, so
	// does the attempt to connect.
	Secure func(ctx context.Context, nc net.Conn) (net.Conn, error)

	// Choose, if not nil, returns the address for each connection instead of the
	// Line's, and is called before it.
	Choose func(ctx context.Context) (addr string, err error)

	// Line configures the Line. DialTCPLine sets Dial, Server and Closed: calls that are
	// lost with their connection fail with ErrClosed.
	Line LineConfig
}

// DialTCPLine makes a Line over TCP to a server, whose address is host and port, or only
// a name for messages if Choose is set. All
// connections use the same local port, if possible a reserved one (DialReserved). It
// tries once, and returns package net's or Secure's error.
func DialTCPLine(ctx context.Context, addr string, cfg TCPLineConfig) (*Line, error) {
	line := cfg.Line
	line.Server, line.Closed = addr, ErrClosed
	port := 0 // local
	line.Dial = func(ctx context.Context, l *Line) (LineConn, error) {
		at := addr
		if cfg.Choose != nil {
			var err error
			if at, err = cfg.Choose(ctx); err != nil {
				return nil, err
			}
		}
		nc, err := redialFrom(ctx, at, port)
		if err != nil {
			return nil, err
		}
		port = localPort(nc)
		if cfg.Secure != nil {
			if nc, err = cfg.Secure(ctx, nc); err != nil {
				return nil, err
			}
		}
		return tcpLineConn{newTCPClient(nc, cfg.Conn, l.XIDs())}, nil
	}
	return NewLine(ctx, line)
}

// A tcpLineConn is a LineConn over TCP.
type tcpLineConn struct{ *TCPClient }

func (c tcpLineConn) Transmit(ctx context.Context, x *Exchange, xid uint32) (uint32, error) {
	return c.callWithXID(ctx, x, xid)
}

func (c tcpLineConn) Received() uint64          { return c.received.Load() }
func (c tcpLineConn) Traffic() (in, out uint64) { return keepalive.Traffic(c.nc) }
func (c tcpLineConn) Done() <-chan struct{}     { return c.done }

func (c tcpLineConn) CheckOverdue() (longest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range c.calls {
		longest = max(longest, c.overdueChecks-cl.queuedCheck)
	}
	c.overdueChecks++
	return longest
}

func (c tcpLineConn) Cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Abort does not wait for the server, which may be silent.
func (c tcpLineConn) Abort(cause error) {
	resetOnClose(c.nc)
	c.closeWith(cmp.Or(cause, errors.New("closed")))
}

// resetOnClose makes nc's next Close reset the connection, after which its port is free.
func resetOnClose(nc net.Conn) {
	if l, ok := nc.(interface{ SetLinger(seconds int) error }); ok {
		_ = l.SetLinger(0) // fails on a closed connection
	}
}
