package main

import (
	"context"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A dialer makes connections, in steps that errors can name (rdma.Dialer). It
// does not fall back to MPA revision 1, as iwarp.Dial does: a server that is being
// restarted hangs up as well, and siw has no RDMA Reads in revision 1.
type dialer struct {
	config      iwarp.Config
	invalidated atomic.Bool // a Send has invalidated memory
}

// Dial connects. Its error is a stepError.
func (d *dialer) Dial(ctx context.Context, addr string, cc rdma.ConnConfig) (rdma.Conn, error) {
	nc, err := iwarp.DialTCP(ctx, "tcp", addr)
	if err != nil {
		return nil, dialError(ctx, addr, err)
	}
	cc.Handler = &ear{cc.Handler, d}
	c, err := iwarp.Client(ctx, nc, d.config, cc)
	if err != nil {
		return nil, startupError(ctx, addr, err)
	}
	return c, nil
}

// An ear notices what comes in on a connection.
type ear struct {
	rdma.Handler
	d *dialer
}

// Receive takes a message (rdma.Handler).
func (e *ear) Receive(m rdma.Recv) {
	if m.WithInvalidate {
		e.d.invalidated.Store(true)
	}
	e.Handler.Receive(m)
}
