package nfsrdma

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/serverlist"
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
	cfg      ClientConfig
	addr     string // host and port, or a list
	servers  []*endpoint
	selector *serverlist.Selector // nil: one server

	lines []*oncrpc.Line
	conns []*rpcrdma.Client // the lines over RDMA
	nfs   *nfsclient.Client

	closed       context.Context // cancelled by Close
	cancelClosed context.CancelFunc

	mountIdle atomic.Bool // CloseMOUNT was called and has not closed mount yet

	turn         chan struct{}      // semaphore for the fields below
	mount        *nfsclient.Mount   // nil if not connected
	mountServer  *endpoint          // server of mount
	mounted      map[string]bool    // paths to unmount
	exportsAsked bool               // the server was asked for its exports
	exports      []nfsclient.Export // the latest list, for errors
}

// Dial connects to the server at addr, HOST or HOST:PORT, and checks that it serves NFS
// version 3. The default port is 20049 over RDMA and 2049 over TCP. ctx limits only the
// attempt. Dial does not retry.
//
// addr may be a list of up to 16 servers with one file system, separated by commas, of which
// one serves at a time. Dial asks all of them at once and uses the first that replies to a
// NULL call, and has the export ClientConfig.Export if that is set. After the loss of a
// connection, and if the server does not respond, the Client asks them again. It recovers
// as from a restart of one server. With TLS, the certificate of each server must contain
// its own host of the list.
func Dial(ctx context.Context, addr string, cfg ClientConfig) (*Client, error) {
	switch {
	case cfg.TCP && cfg.Delegations != nil:
		return nil, errors.New("nfsrdma: delegations need RDMA")
	case cfg.TLS != nil && cfg.ClearMOUNT && len(cfg.Sec) == 0:
		return nil, errors.New("nfsrdma: unencrypted MOUNT calls need Sec")
	}
	c, err := newClient(addr, cfg)
	if err != nil {
		return nil, err
	}
	if err := c.connectAll(ctx); err != nil {
		c.closeLines(err)
		return nil, fmt.Errorf("nfsrdma: connecting to %s: %w", c.addr, err)
	}
	return c, nil
}

// connectAll makes the connections, and a NULL call over the first.
func (c *Client) connectAll(ctx context.Context) error {
	dial := c.dialRDMALine
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

// Server returns the host and port of the server: with a list of servers, the one that was
// chosen last.
func (c *Client) Server() string { return c.server().Addr() }

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
