package nfsrdma

import (
	"context"

	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// dialer returns the maker of all RDMA connections.
func (c *Client) dialer() rdma.Dialer {
	cfg := c.cfg.IWARP
	cfg.Secure = nil
	if c.cfg.TLS != nil {
		cfg.Secure = c.cfg.TLS.Begin
	}
	device := iwarp.Open(rnic(cfg, c.cfg.StandardsOnly))
	if c.cfg.Dialer != nil {
		return c.cfg.Dialer(device)
	}
	return device
}

// overRDMA returns a function that makes one connection.
func (c *Client) overRDMA() func(ctx context.Context) (*oncrpc.Line, error) {
	dialer := c.dialer()
	return func(ctx context.Context) (*oncrpc.Line, error) {
		conn, err := rpcrdma.Dial(ctx, dialer, c.addr, c.connConfig())
		if err != nil {
			return nil, err
		}
		c.conns = append(c.conns, conn)
		return conn.Line, nil
	}
}

// connConfig returns the configuration of one more connection.
func (c *Client) connConfig() rpcrdma.ClientConfig {
	cfg := rpcrdma.ClientConfig{
		Conn:    rpcrdma.ClientConnConfig{Inline: c.cfg.Inline, Credits: c.cfg.Credits},
		Silence: c.cfg.Silence, GiveUp: c.cfg.GiveUp, Log: c.cfg.Log,
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
