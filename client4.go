package nfsrdma

import (
	"cmp"
	"context"
	"log/slog"
	"net"

	"github.com/nfsrdma/nfsrdma/nfs4client"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// DialV4 connects to the server at addr, HOST or HOST:PORT, over RDMA or TCP, and makes
// a session of NFS version 4 with the given minor version, 1 or 2. The default
// port is 20049, and 2049 over TCP. cfg configures the connection and the credential; Connections,
// Delegations and Wrap have no effect. DialV4 does not repeat a failed attempt.
// Errors of servers that answer other versions are those of nfs4client.Dial.
func DialV4(ctx context.Context, addr string, minor uint32, cfg ClientConfig) (*nfs4client.Session, error) {
	host, port, err := splitAddr(addr, cfg.TCP)
	if err != nil {
		return nil, err
	}
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.NFS.Cred == nil {
		cred := nfsclient.ProcessCred()
		cfg.NFS.Cred = &cred
	}
	cfg.Delegations = nil
	c := &Client{cfg: cfg, addr: net.JoinHostPort(host, port)}
	session := nfs4client.Config{
		Dial: c.overTCP4, Network: "tcp",
		Minor: minor, Cred: *cfg.NFS.Cred, Slots: cfg.Credits, GiveUp: cfg.GiveUp, Log: cfg.Log,
	}
	if !cfg.TCP {
		session.Dial, session.Network = c.overRDMA4(), "rdma"
	}
	return nfs4client.Dial(ctx, session)
}

// overRDMA4 returns a function that makes one connection for a session.
func (c *Client) overRDMA4() func(ctx context.Context) (nfs4client.Conn, error) {
	dialer := c.dialer()
	return func(ctx context.Context) (nfs4client.Conn, error) {
		cfg := c.connConfig()
		cfg.Once = true // the session repeats calls, and must know which may have been executed
		conn, err := rpcrdma.Dial(ctx, dialer, c.addr, cfg)
		if err != nil {
			return nil, err // not a nil *rpcrdma.Client
		}
		return line4{conn.Line}, nil
	}
}

// A line4 is a connection to a server, for a session.
type line4 struct{ *oncrpc.Line }

// Abort ends the present connection (nfs4client.Conn).
func (l line4) Abort(cause error) { l.Conn().Abort(cause) }
