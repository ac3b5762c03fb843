package main

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rdma"
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

// brief returns the configuration of a short command's client. The client
// survives a restart of the server that is shorter than --timeout. It logs
// nothing, because the command's errors report the outcome.
func (a *app) brief() nfsrdma.ClientConfig {
	return nfsrdma.ClientConfig{
		Inline: int(a.inline), Credits: a.credits, StandardsOnly: a.bare,
		IWARP:   iwarp.Config{CRC: a.policy(), Markers: a.markers.Word == "on", StartupTimeout: a.timeout},
		Silence: a.timeout, GiveUp: a.timeout,
		NFS: nfsclient.Config{Window: writeWindow}, Log: slog.New(slog.DiscardHandler),
	}
}
