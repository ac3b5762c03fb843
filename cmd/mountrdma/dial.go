package main

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A dialer makes connections in steps that errors can name (rdma.Dialer).
// Unlike an iwarp.Device, a dialer does not fall back to MPA revision 1: a
// restarting server closes connections too, and siw has no RDMA Reads in
// revision 1.
type dialer struct {
	device      *iwarp.Device
	invalidated atomic.Bool // a Send has invalidated memory
}

// Dial connects. Its error is a stepError.
func (d *dialer) Dial(ctx context.Context, addr string, cc rdma.ConnConfig) (rdma.Conn, error) {
	nc, err := iwarp.DialTCP(ctx, "tcp", addr)
	if err != nil {
		return nil, dialError(ctx, addr, err)
	}
	cc.Handler = &ear{cc.Handler, d}
	c, err := d.device.Client(ctx, nc, cc)
	if err != nil {
		return nil, startupError(ctx, addr, err)
	}
	return c, nil
}

// An ear observes the messages received on a connection.
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

// client returns the configuration of this program's RDMA connections.
func (a *app) client() rpcrdma.ClientConnConfig {
	cfg := rpcrdma.ClientConnConfig{Inline: int(a.inline), Credits: a.credits}
	if !a.bare {
		cfg.Extensions = &rpcrdma.ExtensionConfig{Atomics: true}
	}
	return cfg
}

// brief returns the configuration of a short command's line. The line survives
// a restart of the server that is shorter than --timeout. It logs nothing,
// because the command's errors report the outcome.
func (a *app) brief() rpcrdma.ClientConfig {
	return rpcrdma.ClientConfig{
		Conn: a.client(), Silence: a.timeout, GiveUp: a.timeout, Log: slog.New(slog.DiscardHandler),
	}
}
