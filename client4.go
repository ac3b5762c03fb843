package nfsrdma

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// DialV4 connects to the server at addr, HOST or HOST:PORT or a list as for Dial, over RDMA
// or TCP, and creates an NFS version 4 session with the given minor version, 1 or 2. The
// default port is 20049 over RDMA and 2049 over TCP. cfg configures the connection and the
// credential; Connections, Delegations, Export and Wrap have no effect. DialV4 does not
// retry. If the server does not support the version, the error is that of nfs4client.Dial.
func DialV4(ctx context.Context, addr string, minor uint32, cfg ClientConfig) (*nfs4client.Session, error) {
	cfg.Delegations, cfg.Export, cfg.AnyVersion = nil, "", true
	c, err := newClient(addr, cfg)
	if err != nil {
		return nil, err
	}
	session := nfs4client.Config{
		Network: "tcp",
		Minor:   minor, Cred: *c.cfg.NFS.Cred, Slots: cfg.Credits, GiveUp: cfg.GiveUp, Log: c.cfg.Log,
	}
	if cfg.TCP {
		session.Dial = c.tcpSessionDialer()
	} else {
		session.Dial, session.Network = c.rdmaSessionDialer(), "rdma"
	}
	return nfs4client.Dial(ctx, session)
}

// rdmaSessionDialer returns a function that makes one RDMA connection for a session.
func (c *Client) rdmaSessionDialer() func(ctx context.Context) (nfs4client.Conn, error) {
	link := c.newLink()
	dialer := c.dialerFor(link)
	return func(ctx context.Context) (nfs4client.Conn, error) {
		cfg := c.connConfig(link)
		cfg.Once = true // the session repeats calls itself, and must know which may have been executed
		conn, err := rpcrdma.Dial(ctx, dialer, c.addr, cfg)
		if err != nil {
			return nil, err // not a nil *rpcrdma.Client
		}
		return line4{conn.Line}, nil
	}
}

// A line4 is a session's connection to a server.
type line4 struct{ *oncrpc.Line }

// Abort aborts the current connection (nfs4client.Conn).
func (l line4) Abort(cause error) { l.Conn().Abort(cause) }
