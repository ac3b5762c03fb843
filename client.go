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
	rdmaPort    = "20049"     // IANA: nfsrdma
	tcpPort     = "2049"      // IANA: nfs
	goodbyeTime = time.Second // for the calls that tell a server of a Close
	maxNamed    = 16          // exports that an error names
)

// A Client uses one server over RDMA or TCP. A lost connection is replaced, and the
// calls under way are sent again. The methods are safe for concurrent use.
type Client struct {
	cfg   ClientConfig
	addr  string // host and port
	host  string
	lines []*oncrpc.Line
	conns []*rpcrdma.Client // the lines over RDMA
	nfs   *nfsclient.Client

	closed context.Context // ended by Close
	ended  context.CancelFunc

	idle atomic.Bool // CloseMOUNT was called

	turn    chan struct{}      // has an element while a goroutine uses the rest
	mount   *nfsclient.Mount   // nil: not looked for yet
	mounted map[string]bool    // paths to unmount
	asked   bool               // for the exports
	exports []nfsclient.Export // of the last answer, for errors
}

// Dial connects to the server at addr, HOST or HOST:PORT, and checks that it
// serves NFS version 3. The default port is 20049, and 2049 over TCP. ctx bounds the attempt only.
// Dial does not repeat a failed attempt.
func Dial(ctx context.Context, addr string, cfg ClientConfig) (*Client, error) {
	host, port, err := splitAddr(addr, cfg.TCP)
	switch {
	case err != nil:
		return nil, err
	case cfg.TCP && cfg.Delegations != nil:
		return nil, errors.New("nfsrdma: delegations need RDMA")
	case cfg.TLS != nil && cfg.ClearMOUNT && len(cfg.Sec) == 0:
		return nil, errors.New("nfsrdma: with MOUNT in clear, Sec must say how users are known")
	}
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.NFS.Cred == nil {
		cred := nfsclient.ProcessCred()
		cfg.NFS.Cred = &cred
	}
	c := &Client{cfg: cfg, addr: net.JoinHostPort(host, port), host: host, mounted: make(map[string]bool)}
	c.turn = make(chan struct{}, 1)
	c.closed, c.ended = context.WithCancel(context.Background())
	if err := c.connect(ctx); err != nil {
		c.hangUp(err)
		return nil, fmt.Errorf("nfsrdma: connecting to %s: %w", c.addr, err)
	}
	return c, nil
}

// splitAddr splits HOST or HOST:PORT; an IPv6 address with a port is in
// brackets.
func splitAddr(addr string, tcp bool) (host, port string, err error) {
	if addr == "" {
		return "", "", errors.New("nfsrdma: no server to connect to: write HOST or HOST:PORT")
	}
	if host, port, err = net.SplitHostPort(addr); err == nil {
		return host, port, nil
	}
	host = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")
	if net.ParseIP(host) == nil && strings.ContainsAny(host, ":[]") {
		return "", "", fmt.Errorf("nfsrdma: %q is no server: write HOST, HOST:PORT or [IPv6]:PORT", addr)
	}
	if tcp {
		return host, tcpPort, nil
	}
	return host, rdmaPort, nil
}

// connect makes the connections, and a call over the first.
func (c *Client) connect(ctx context.Context) error {
	dial := c.overRDMA()
	if c.cfg.TCP {
		dial = c.overTCP
	}
	callers := make([]oncrpc.Caller, max(c.cfg.Connections, 1))
	for i := range callers {
		line, err := dial(ctx)
		if err != nil {
			return err
		}
		c.lines, callers[i] = append(c.lines, line), line
		if i == 0 { // before a server that is none is asked for more
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

// NFS returns the client of NFS's procedures, below the file systems of Mount.
func (c *Client) NFS() *nfsclient.Client { return c.nfs }

// Lines returns the connections.
func (c *Client) Lines() []*oncrpc.Line { return slices.Clone(c.lines) }

// Conns returns the connections over RDMA, each with its negotiated values; none over TCP.
func (c *Client) Conns() []*rpcrdma.Client { return slices.Clone(c.conns) }

// Up reports whether the server answers on all connections: calls may wait for
// any of them.
func (c *Client) Up() bool {
	for _, line := range c.lines {
		if !line.Up() {
			return false
		}
	}
	return true
}

// Close tells the server that its exports are no longer used, and ends the
// connections. Calls under way fail with rdma.ErrClosed, or with oncrpc.ErrClosed over
// TCP. It returns nil, and
// may be called twice.
func (c *Client) Close() error {
	c.ended() // a call under way would keep its turn for as long as the server is away
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.goodbye()
	c.hangUp(nil)
	return nil
}

// hangUp ends the connections; cause is the error of a server that would not
// answer a goodbye.
func (c *Client) hangUp(cause error) {
	for _, line := range c.lines {
		if cause != nil {
			line.Conn().Abort(cause)
		}
		_ = line.Close()
	}
	c.cfg.Delegations.Close()
}
