package nfsrdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/serverlist"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
)

// listPause is the longest pause before the servers of a list are asked again. It delays
// the change to a server that takes over.
const listPause = 500 * time.Millisecond

var errAsked = errors.New("nfsrdma: the server was asked whether it serves")

// An endpoint is a server with all that its connections need.
type endpoint struct {
	serverlist.Server
	tls    *rpctls.Client // nil: unencrypted
	dialer rdma.Dialer    // nil over TCP
	asker  rdma.Dialer    // for the connection that asks whether it serves
}

// newClient returns a Client without connections for a server, or a list of servers.
func newClient(addr string, cfg ClientConfig) (*Client, error) {
	list, err := serverlist.Parse(addr, func(entry string) (serverlist.Server, error) { return splitAddr(entry, cfg.TCP) })
	if err != nil {
		return nil, fmt.Errorf("nfsrdma: %w", err)
	}
	if len(list) > 1 && cfg.MountHost != "" {
		return nil, errors.New("nfsrdma: MountHost is one host, and the servers are several: leave it empty")
	}
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.NFS.Cred == nil {
		cred := nfsclient.ProcessCred()
		cfg.NFS.Cred = &cred
	}
	c := &Client{cfg: cfg, addr: serverlist.Format(list), mounted: make(map[string]bool), turn: make(chan struct{}, 1)}
	c.closed, c.cancelClosed = context.WithCancel(context.Background())
	c.setServers(list)
	return c, nil
}

// splitAddr splits HOST or HOST:PORT. An IPv6 address with a port is in brackets.
func splitAddr(addr string, tcp bool) (serverlist.Server, error) {
	if addr == "" {
		return serverlist.Server{}, errors.New("the server's address is empty: write HOST or HOST:PORT")
	}
	if host, port, err := net.SplitHostPort(addr); err == nil {
		return serverlist.Server{Host: host, Port: port}, nil
	}
	host := strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")
	if net.ParseIP(host) == nil && strings.ContainsAny(host, ":[]") {
		return serverlist.Server{}, fmt.Errorf("%q is not a server's address: write HOST, HOST:PORT or [IPv6]:PORT", addr)
	}
	if tcp {
		return serverlist.Server{Host: host, Port: tcpPort}, nil
	}
	return serverlist.Server{Host: host, Port: rdmaPort}, nil
}

// setServers makes the endpoints, and the selector if there are several.
func (c *Client) setServers(list []serverlist.Server) {
	var names []string
	for _, s := range list {
		e := &endpoint{Server: s, tls: c.cfg.TLS}
		if e.tls != nil && len(list) > 1 {
			e.tls = e.tls.ForHost(s.Host)
		}
		if !c.cfg.TCP {
			e.dialer = c.newDialer(e, c.cfg.IWARP)
		}
		c.servers, names = append(c.servers, e), append(names, s.Addr())
	}
	if len(list) == 1 {
		return
	}
	unrecorded := c.cfg.IWARP
	unrecorded.Record, unrecorded.Ended = 0, nil
	for _, e := range c.servers {
		if !c.cfg.TCP {
			e.asker = c.newDialer(e, unrecorded)
		}
	}
	c.selector = serverlist.New(serverlist.Config{
		Servers: names,
		Ask:     func(ctx context.Context, server int) error { return c.askServer(ctx, c.servers[server]) },
		Moved: func(from, to int) {
			c.cfg.Log.Info("another server of the list serves", "server", names[to], "before", names[from])
		},
	})
	if c.cfg.Export != "" {
		c.mounted[c.cfg.Export] = true // by askServer
	}
}

// newDialer returns the dialer for RDMA connections to a server.
func (c *Client) newDialer(e *endpoint, cfg iwarp.Config) rdma.Dialer {
	cfg.Secure = nil
	if e.tls != nil {
		cfg.Secure = e.tls.Begin
	}
	device := iwarp.Open(deviceConfig(cfg, c.cfg.StandardsOnly))
	if c.cfg.Dialer != nil {
		return c.cfg.Dialer(device)
	}
	return device
}

// server returns the server, or the one of a list that was chosen last.
func (c *Client) server() *endpoint {
	if c.selector == nil {
		return c.servers[0]
	}
	return c.servers[c.selector.Current()]
}

// newLink returns the Link for one connection, or nil if there is one server.
func (c *Client) newLink() *serverlist.Link {
	if c.selector == nil {
		return nil
	}
	return c.selector.NewLink()
}

// askServer returns nil if a server replies and has the export, if one is required. It uses
// a connection of its own.
func (c *Client) askServer(ctx context.Context, e *endpoint) error {
	own := *e
	own.dialer = e.asker
	cfg := c.cfg
	cfg.Connections, cfg.Delegations, cfg.Wrap, cfg.TLS = 1, nil, nil, e.tls
	cfg.Log = slog.New(slog.DiscardHandler)
	asker := &Client{cfg: cfg, addr: e.Addr(), servers: []*endpoint{&own}}
	defer asker.closeLines(errAsked)
	if err := asker.connectAll(ctx); err != nil {
		return err
	}
	if c.cfg.Export == "" {
		return nil
	}
	return asker.checkExport(ctx, c.cfg.Export)
}

// checkExport returns a RefusedError if the server does not let this client mount an export
// or a directory below one. A file is below one, too.
func (c *Client) checkExport(ctx context.Context, path string) error {
	if err := c.findMount(ctx); err != nil {
		return err
	}
	defer func() { _ = c.mount.Close() }()
	_, _, err := c.mount.MntFlavors(ctx, path)
	refused, isStatus := errors.AsType[*nfsclient.MountError](err)
	_, isDenial := errors.AsType[rpcmsg.AuthError](err)
	switch {
	case isStatus && refused.Status == mount3.ErrNotDir:
		return nil
	case isStatus, isDenial:
		return &serverlist.RefusedError{Err: err}
	}
	return err
}

// A linkDialer dials the server that serves (rdma.Dialer).
type linkDialer struct {
	client *Client
	link   *serverlist.Link
}

func (d linkDialer) Dial(ctx context.Context, _ string, cc rdma.ConnConfig) (rdma.Conn, error) {
	i, err := d.link.Select(ctx)
	if err != nil {
		return nil, err
	}
	e := d.client.servers[i]
	conn, err := e.dialer.Dial(ctx, e.Addr(), cc)
	if err != nil {
		return nil, err
	}
	d.link.Connected(conn.Abort)
	return conn, nil
}

// dialerFor returns the dialer for the connections of a Link, which may be nil.
func (c *Client) dialerFor(link *serverlist.Link) rdma.Dialer {
	if link == nil {
		return c.servers[0].dialer
	}
	return linkDialer{c, link}
}

// tcpLineConfig returns the configuration of a TCP connection for NFS version vers. link
// may be nil.
func (c *Client) tcpLineConfig(link *serverlist.Link, vers uint32) oncrpc.TCPLineConfig {
	line := oncrpc.LineConfig{Silence: c.cfg.Silence, GiveUp: c.cfg.GiveUp, Log: c.cfg.Log}
	if link == nil {
		return oncrpc.TCPLineConfig{Secure: c.servers[0].tcpSecurer(vers), Line: line}
	}
	line.MaxPause, line.Doubt = listPause, link.Doubt
	var e *endpoint // chosen last
	return oncrpc.TCPLineConfig{
		Line: line,
		Choose: func(ctx context.Context) (string, error) {
			i, err := link.Select(ctx)
			if err != nil {
				return "", err
			}
			e = c.servers[i]
			return e.Addr(), nil
		},
		Secure: func(ctx context.Context, nc net.Conn) (net.Conn, error) {
			link.Connected(func(error) {
				// The old host must not receive calls later that are sent again to the new one.
				if l, ok := nc.(*net.TCPConn); ok {
					_ = l.SetLinger(0) // fails on a closed connection
				}
				_ = nc.Close()
			})
			if secure := e.tcpSecurer(vers); secure != nil {
				return secure(ctx, nc)
			}
			return nc, nil
		},
	}
}
