package main

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A dialer makes one connection, in steps that errors can name, and keeps an
// ear on it (rdma.Dialer).
type dialer struct {
	config iwarp.Config
	ear    *ear
	nc     *net.TCPConn // below the connection
}

// Dial connects. Its error is a stepError.
func (d *dialer) Dial(ctx context.Context, addr string, cc rdma.ConnConfig) (rdma.Conn, error) {
	var nd net.Dialer
	nc, err := nd.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, dialError(ctx, addr, err)
	}
	d.nc = nc.(*net.TCPConn)
	d.ear.Handler = cc.Handler
	cc.Handler = d.ear
	c, err := iwarp.Client(ctx, nc, d.config, cc)
	if err != nil {
		return nil, startupError(ctx, addr, err)
	}
	return c, nil
}

// An ear notices what comes in on a connection.
type ear struct {
	rdma.Handler
	heard       atomic.Int64 // when the last message came, in nanoseconds of UNIX
	invalidated atomic.Bool  // a Send has invalidated memory
}

// Receive takes a message (rdma.Handler).
func (e *ear) Receive(m rdma.Recv) {
	e.heard.Store(time.Now().UnixNano())
	if m.WithInvalidate {
		e.invalidated.Store(true)
	}
	e.Handler.Receive(m)
}
