package oncrpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/keepalive"
)

// A ClientConfig is how a TCPClient behaves. The zero value is right for most.
type ClientConfig struct {
	// Machine is the name that AUTH_SYS credentials carry, of which the
	// first 255 octets count; "" means the host's.
	Machine string
}

// ErrClosed is the error of calls whose connection has ended. It comes with
// the cause: net.ErrClosed after Close, io.EOF where the server closed it, or
// what else happened.
var ErrClosed = errors.New("oncrpc: connection ended")

// A TCPClient makes calls of any program over one connection, with the record
// marking of RFC 5531, Section 11. It implements Caller: calls of many
// goroutines are under way at the same time, and their replies may come in any
// order. A call is never sent twice; a caller who gave one up may make it
// again.
//
//	Call ──▶ waiting ──▶ batch ──one writev──▶ server
//	  ▲                                          │
//	  └────── reply, by its XID ◀── record ◀─────┘
//
// A data item travels inline: Results point to the reply, and Sink is not
// written to.
type TCPClient struct {
	nc      net.Conn
	machine string
	in      recordReader // of the goroutine that reads
	out     callWriter   // of the goroutine that writes

	under  sync.WaitGroup // the two goroutines, and the calls
	unused sync.Pool      // of *clientCall

	mu      sync.Mutex
	xid     uint32
	calls   map[uint32]*clientCall // not answered yet, by XID
	longest int                    // octets of the longest reply that a call so far allows
	err     error                  // why the connection ended
}

var _ Caller = (*TCPClient)(nil)

// DialTCP connects to a server. The address is host and port. The connection
// lives until Close, ctx bounds the time to make it only.
func DialTCP(ctx context.Context, addr string, cfg ClientConfig) (*TCPClient, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	switch {
	case err == nil:
		return NewTCPClient(nc, cfg), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("oncrpc: dial tcp %s: %w", addr, context.Cause(ctx))
	}
	return nil, fmt.Errorf("oncrpc: %w", err)
}

// NewTCPClient makes calls over nc, which it takes over. nc's deadlines must
// work, and a write that one cuts short leave the stream fit for the rest.
func NewTCPClient(nc net.Conn, cfg ClientConfig) *TCPClient {
	if cfg.Machine == "" {
		cfg.Machine, _ = os.Hostname() // a server decides nothing by it
	}
	c := &TCPClient{
		nc: nc, machine: cfg.Machine,
		xid: rand.Uint32(), calls: make(map[uint32]*clientCall),
	}
	c.in = recordReader{br: bufio.NewReaderSize(nc, readBuffer), reserve: func(int) error { return nil }}
	c.out.init(c)
	keepalive.Watch(nc)
	c.under.Go(c.read)
	c.under.Go(c.out.run)
	return c
}

// Close ends the connection. Calls under way fail; it waits until all have
// returned. It may be called twice.
func (c *TCPClient) Close() error {
	c.fail(net.ErrClosed)
	c.under.Wait()
	return nil
}

// fail ends the connection and all calls. The first cause counts.
func (c *TCPClient) fail(cause error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = fmt.Errorf("%w: %w", ErrClosed, cause)
	calls := c.calls
	c.calls = nil
	c.out.endLocked()
	c.mu.Unlock()
	c.nc.Close()
	for _, cl := range calls {
		cl.reply <- outcome{err: c.err}
	}
}
