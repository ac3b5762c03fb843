package nfsrdma

import (
	"cmp"
	"context"
	"log/slog"
	"net"

	"github.com/nfsrdma/nfsrdma/nfs4client"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// DialV4 connects to the server at addr, HOST or HOST:PORT, over RDMA, and makes
// a session of NFS version 4 with the given minor version, 1 or 2. The default
// port is 20049. cfg configures the connection and the credential; Connections,
// Delegations and Wrap have no effect. DialV4 does not repeat a failed attempt.
// Errors of servers that answer other versions are those of nfs4client.Dial.
func DialV4(ctx context.Context, addr string, minor uint32, cfg ClientConfig) (*nfs4client.Session, error) {
	host, port, err := splitAddr(addr)
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
	device := c.device()
	var dialer rdma.Dialer = device
	if cfg.Dialer != nil {
		dialer = cfg.Dialer(device)
	}
	return nfs4client.Dial(ctx, nfs4client.Config{
		Dial: func(ctx context.Context) (nfs4client.Conn, error) {
			line := c.connConfig()
			line.Once = true // the session repeats calls, and must know which may have been executed
			conn, err := rpcrdma.Dial(ctx, dialer, c.addr, line)
			if err != nil {
				return nil, err // not a nil *rpcrdma.Client
			}
			return conn4{conn}, nil
		},
		Network: "rdma", Minor: minor, Cred: *cfg.NFS.Cred, Slots: cfg.Credits, GiveUp: cfg.GiveUp, Log: cfg.Log,
	})
}

// A conn4 is a connection to a server, for a session.
type conn4 struct{ *rpcrdma.Client }

// Abort ends the present connection (nfs4client.Conn).
func (c conn4) Abort(cause error) { c.Conn().Conn().Abort(cause) }
