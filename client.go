package nfsrdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

const (
	rdmaPort        = "20049"     // IANA: nfsrdma
	tcpPort         = "2049"      // IANA: nfs
	unmountTimeout  = time.Second // for the UMNT calls of Close
	maxNamedExports = 16          // number of exports that an error names
)

// A Client makes calls to one server over RDMA or TCP. It reconnects after the loss of a
// connection and retransmits pending calls. The methods are safe for concurrent use.
type Client struct {
	cfg   ClientConfig
	addr  string // host and port
	host  string
	lines []*oncrpc.Line
	conns []*rpcrdma.Client // the lines over RDMA
	nfs   *nfsclient.Client

	closed       context.Context // cancelled by Close
	cancelClosed context.CancelFunc

	mountIdle atomic.Bool // CloseMOUNT was called and has not closed mount yet

	turn         chan struct{}      // semaphore for the fields below
	mount        *nfsclient.Mount   // nil if not connected
	mounted      map[string]bool    // paths to unmount
	exportsAsked bool               // the server was asked for its exports
	exports      []nfsclient.Export // the latest list, for errors
}

// Dial connects to the server at addr, HOST or HOST:PORT, and checks that it serves NFS
// version 3. The default port is 20049 over RDMA and 2049 over TCP. ctx limits only the
// attempt. Dial does not retry.
func Dial(ctx context.Context, addr string, cfg ClientConfig) (*Client, error) {
	host, port, err := splitAddr(addr, cfg.TCP)
	switch {
	case err != nil:
		return nil, err
	case cfg.TCP && cfg.Delegations != nil:
		return nil, errors.New("nfsrdma: delegations need RDMA")
	case cfg.TLS != nil && cfg.ClearMOUNT && len(cfg.Sec) == 0:
		return nil, errors.New("nfsrdma: unencrypted MOUNT calls need Sec")
	}
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.NFS.Cred == nil {
		cred := nfsclient.ProcessCred()
		cfg.NFS.Cred = &cred
	}
	c := &Client{cfg: cfg, addr: net.JoinHostPort(host, port), host: host, mounted: make(map[string]bool)}
	c.turn = make(chan struct{}, 1)
	c.closed, c.cancelClosed = context.WithCancel(context.Background())
	if err := c.connectAll(ctx); err != nil {
		c.closeLines(err)
		return nil, fmt.Errorf("nfsrdma: connecting to %s: %w", c.addr, err)
	}
	return c, nil
}

// splitAddr splits HOST or HOST:PORT. An IPv6 address with a port is in brackets.
func splitAddr(addr string, tcp bool) (host, port string, err error) {
	if addr == "" {
		return "", "", errors.New("nfsrdma: the server's address is empty: write HOST or HOST:PORT")
	}
	if host, port, err = net.SplitHostPort(addr); err == nil {
		return host, port, nil
	}
	host = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")
	if net.ParseIP(host) == nil && strings.ContainsAny(host, ":[]") {
		return "", "", fmt.Errorf("nfsrdma: %q is not a server's address: write HOST, HOST:PORT or [IPv6]:PORT", addr)
	}
	if tcp {
		return host, tcpPort, nil
	}
	return host, rdmaPort, nil
}

// connectAll makes the connections, and a NULL call over the first.
func (c *Client) connectAll(ctx context.Context) error {
	dial := c.rdmaLineDialer()
	if c.cfg.TCP {
		dial = c.dialTCPLine
	}
	callers := make([]oncrpc.Caller, max(c.cfg.Connections, 1))
	for i := range callers {
		line, err := dial(ctx)
		if err != nil {
			return err
		}
		c.lines, callers[i] = append(c.lines, line), line
		if i == 0 { // a host that does not serve NFS gets no further connections
			err := nfsclient.New(line.Conn(), nfsclient.Config{}).Null(ctx)
			if _, refused := errors.AsType[*oncrpc.ReplyError](err); err != nil && !(refused && c.cfg.AnyVersion) {
				return err
			}
		}
	}
	var caller oncrpc.Caller = c.cfg.Delegations.Caller(callers...)
	if c.cfg.Wrap != nil {
		caller = c.cfg.Wrap(caller)
	}
	c.nfs = nfsclient.New(caller, c.cfg.NFS)
	return nil
}

// NFS returns the client for NFS procedures, which the file systems of Mount use.
func (c *Client) NFS() *nfsclient.Client { return c.nfs }

// Lines returns the connections.
func (c *Client) Lines() []*oncrpc.Line { return slices.Clone(c.lines) }

// Conns returns the RDMA connections, which have the negotiated values.
func (c *Client) Conns() []*rpcrdma.Client { return slices.Clone(c.conns) }

// Up reports whether the server responds on all connections. A call may use any of them.
func (c *Client) Up() bool {
	for _, line := range c.lines {
		if !line.Up() {
			return false
		}
	}
	return true
}

// Close tells the server that its exports are no longer used, and closes the connections.
// Pending calls fail with rdma.ErrClosed, or with oncrpc.ErrClosed over TCP. Close returns
// nil and may be called more than once.
func (c *Client) Close() error {
	c.cancelClosed() // otherwise a pending call holds turn while the server is unreachable
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.unmountAll()
	c.closeLines(nil)
	return nil
}

// closeLines closes the connections. If cause is not nil, it aborts them without waiting
// for the server.
func (c *Client) closeLines(cause error) {
	for _, line := range c.lines {
		if cause != nil {
			line.Conn().Abort(cause)
		}
		_ = line.Close()
	}
	c.cfg.Delegations.Close()
}
