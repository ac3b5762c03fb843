package nfsrdma

import (
	"context"

	"github.com/nfsrdma/nfsrdma/internal/serverlist"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// dialRDMALine makes one RDMA connection.
func (c *Client) dialRDMALine(ctx context.Context) (*oncrpc.Line, error) {
	link := c.newLink()
	conn, err := rpcrdma.Dial(ctx, c.dialerFor(link), c.addr, c.connConfig(link))
	if err != nil {
		return nil, err
	}
	c.conns = append(c.conns, conn)
	return conn.Line, nil
}

// connConfig returns the configuration of one RDMA connection. link may be nil.
func (c *Client) connConfig(link *serverlist.Link) rpcrdma.ClientConfig {
	cfg := rpcrdma.ClientConfig{
		Conn:    rpcrdma.ClientConnConfig{Inline: c.cfg.Inline, Credits: c.cfg.Credits},
		Silence: c.cfg.Silence, GiveUp: c.cfg.GiveUp, Log: c.cfg.Log,
	}
	if link != nil {
		cfg.MaxPause, cfg.Doubt = listPause, link.Doubt
	}
	switch {
	case c.cfg.StandardsOnly:
	case c.cfg.Delegations != nil:
		cfg.Conn.Extensions = c.cfg.Delegations.NewAttachment().Extension()
	default:
		cfg.Conn.Extensions = &rpcrdma.ExtensionConfig{Atomics: true}
	}
	return cfg
}
