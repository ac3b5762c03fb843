package main

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
)

// A dialer opens connections in steps, so that errors can name the failed step
// (rdma.Dialer). Unlike an iwarp.Device, it does not fall back to MPA revision 1: a
// restarting server closes connections too, and siw has no RDMA Reads in revision 1.
type dialer struct {
	device      *iwarp.Device
	invalidated *atomic.Bool // set if the server has sent a Send With Invalidate
}

// Dial connects. Its errors are stepErrors.
func (d *dialer) Dial(ctx context.Context, addr string, cc rdma.ConnConfig) (rdma.Conn, error) {
	nc, err := iwarp.DialTCP(ctx, "tcp", addr)
	if err != nil {
		return nil, dialError(ctx, addr, err)
	}
	cc.Handler = &messageObserver{cc.Handler, d}
	c, err := d.device.Client(ctx, nc, cc)
	if err != nil {
		return nil, startupError(ctx, addr, err)
	}
	return c, nil
}

// A messageObserver looks at the messages received on a connection for remote invalidation.
type messageObserver struct {
	rdma.Handler
	dialer *dialer
}

// Receive receives a message (rdma.Handler).
func (e *messageObserver) Receive(m rdma.Recv) {
	if m.WithInvalidate {
		e.dialer.invalidated.Store(true)
	}
	e.Handler.Receive(m)
}

// commandConfig returns the client configuration for commands other than mount. The client
// survives a server restart that is shorter than --timeout. It logs nothing, because the
// command's errors report the outcome.
func (a *app) commandConfig() nfsrdma.ClientConfig {
	return nfsrdma.ClientConfig{
		Inline: int(a.inline), Credits: a.credits, StandardsOnly: a.standardsOnly,
		IWARP:   iwarp.Config{CRC: a.crcPolicy(), Markers: a.markers.Word == "on", StartupTimeout: a.timeout},
		Silence: a.timeout, GiveUp: a.timeout,
		NFS: nfsclient.Config{Window: writeWindow}, Log: slog.New(slog.DiscardHandler),
	}
}
