package nfsrdma

import (
	"context"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// newDialer returns the dialer for all RDMA connections.
func (c *Client) newDialer() rdma.Dialer {
	cfg := c.cfg.IWARP
	cfg.Secure = nil
	if c.cfg.TLS != nil {
		cfg.Secure = c.cfg.TLS.Begin
	}
	device := iwarp.Open(deviceConfig(cfg, c.cfg.StandardsOnly))
	if c.cfg.Dialer != nil {
		return c.cfg.Dialer(device)
	}
	return device
}

// rdmaLineDialer returns a function that makes one RDMA connection.
func (c *Client) rdmaLineDialer() func(ctx context.Context) (*oncrpc.Line, error) {
	dialer := c.newDialer()
	return func(ctx context.Context) (*oncrpc.Line, error) {
		conn, err := rpcrdma.Dial(ctx, dialer, c.addr, c.connConfig())
		if err != nil {
			return nil, err
		}
		c.conns = append(c.conns, conn)
		return conn.Line, nil
	}
}

// connConfig returns the configuration of one RDMA connection.
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
