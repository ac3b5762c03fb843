package rpcrdma

import (
	"context"
	"log/slog"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A ClientConfig configures a Client. With the zero value, calls wait for their
// server forever.
type ClientConfig struct {
	// Conn configures each connection.
	Conn ClientConnConfig

	// Silence, GiveUp, MaxPause, Doubt, Once and Log are as in oncrpc.LineConfig. Calls
	// that are lost with their connection fail with rdma.ErrClosed.
	Silence, GiveUp, MaxPause time.Duration
	Doubt                     func(ctx context.Context)
	Once                      bool
	Log                       *slog.Logger
}

// A Client sends calls to one server, over one connection at a time, which it
// replaces when it is lost (oncrpc.Line). An RDMA_ERROR counts as a reply.
// Client implements oncrpc.Caller.
type Client struct{ *oncrpc.Line }

// Dial connects a Client to a server at addr, a host and port. It tries once,
// and returns the dialer's error.
func Dial(ctx context.Context, d rdma.Dialer, addr string, cfg ClientConfig) (*Client, error) {
	if err := cfg.Conn.fillAndCheck(); err != nil {
		return nil, err
	}
	l, err := oncrpc.NewLine(ctx, oncrpc.LineConfig{
		Dial: func(ctx context.Context, l *oncrpc.Line) (oncrpc.LineConn, error) {
			c, err := dialConn(ctx, d, addr, cfg.Conn, l.XIDs(), l)
			if err != nil {
				return nil, err
			}
			return lineConn{c}, nil
		},
		Server: addr, Closed: rdma.ErrClosed,
		Eager:   cfg.Conn.Backchannel != nil, // RFC 8167, Section 5.4
		Silence: cfg.Silence, GiveUp: cfg.GiveUp, MaxPause: cfg.MaxPause, Doubt: cfg.Doubt, Once: cfg.Once, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	return &Client{l}, nil
}

// Conn returns the current connection, or the last.
func (l *Client) Conn() *ClientConn { return l.Line.Conn().(lineConn).ClientConn }

// A lineConn is a connection in a Client's Line (oncrpc.LineConn).
type lineConn struct{ *ClientConn }

func (c lineConn) Transmit(ctx context.Context, x *oncrpc.Exchange, xid uint32) (uint32, error) {
	return c.callWithXID(ctx, x, xid)
}

func (c lineConn) Received() uint64 { return c.received.Load() }

// Traffic returns 0 if the provider counts no bytes.
func (c lineConn) Traffic() (in, out uint64) {
	if meter, ok := c.conn.(rdma.ByteCounter); ok {
		return meter.Traffic()
	}
	return 0, 0
}

func (c lineConn) CheckOverdue() int { return c.checkOverdue() }
func (c lineConn) Cause() error      { return c.closeCause() }
func (c lineConn) Abort(cause error) { c.conn.Abort(cause) }
