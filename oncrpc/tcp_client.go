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
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/internal/keepalive"
	"github.com/nfsrdma/nfsrdma/internal/samehost"
)

// A ClientConfig configures a TCPClient. The zero value is right for most
// programs.
type ClientConfig struct {
	// Machine is the name in AUTH_SYS credentials, cut to 255 bytes; "" means
	// the host's name.
	Machine string
}

// ErrClosed is the error of calls whose connection has ended. It wraps the
// cause: net.ErrClosed after Close, io.EOF if the server closed the connection,
// or another error.
var ErrClosed = errors.New("oncrpc: connection ended")

// A TCPClient makes calls of any program over one connection, with the record
// marking of RFC 5531, Section 11. It implements Caller: many goroutines may
// make calls concurrently, and replies may come in any order. A call is never
// sent twice; the caller of an abandoned call may make it again.
//
//	Call ──▶ waiting ──▶ batch ──one writev──▶ server
//	  ▲                                          │
//	  └────── reply, by its XID ◀── record ◀─────┘
//
// A data item travels inline: Results point to the reply, unless the reply is long and
// the call can locate its item, which is then received into Sink.
type TCPClient struct {
	nc      net.Conn
	machine string
	in      recordReader // of the reader goroutine
	out     callWriter   // of the writer goroutine

	xids     *XIDs
	received atomic.Uint64 // records

	under  sync.WaitGroup // the two goroutines, and the calls
	unused sync.Pool      // of *clientCall
	over   chan struct{}  // closed when the connection has ended

	mu       sync.Mutex
	calls    map[uint32]*clientCall // unanswered, by XID
	placing  *clientCall            // whose Sink the reader writes to, or nil
	evicting bool                   // its caller has given up: the read deadline has passed
	longest  int                    // bytes of the longest reply that any call so far allows
	checks   int                    // for overdue replies, so far
	err      error                  // why the connection ended
}

var _ Caller = (*TCPClient)(nil)

// DialTCP connects to a server. The address is host and port. ctx bounds only
// the time to connect; the connection lives until Close.
func DialTCP(ctx context.Context, addr string, cfg ClientConfig) (*TCPClient, error) {
	d := net.Dialer{Control: samehost.SpeedDial}
	nc, err := d.DialContext(ctx, "tcp", addr)
	switch {
	case err == nil:
		return NewTCPClient(nc, cfg), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("oncrpc: dial tcp %s: %w", addr, context.Cause(ctx))
	}
	return nil, fmt.Errorf("oncrpc: %w", err)
}

// NewTCPClient makes calls over nc and takes ownership of nc. The deadlines of
// nc must work, and after a write that a deadline interrupts, the stream must
// accept the rest.
func NewTCPClient(nc net.Conn, cfg ClientConfig) *TCPClient {
	return newTCPClient(nc, cfg, NewXIDs(rand.Uint32()))
}

func newTCPClient(nc net.Conn, cfg ClientConfig, ids *XIDs) *TCPClient {
	if cfg.Machine == "" {
		cfg.Machine, _ = os.Hostname() // servers decide nothing by this name
	}
	c := &TCPClient{
		nc: nc, machine: cfg.Machine,
		xids: ids, calls: make(map[uint32]*clientCall), over: make(chan struct{}),
	}
	c.in = recordReader{br: bufio.NewReaderSize(nc, readBuffer), reserve: func(int) error { return nil }}
	c.out.init(c)
	keepalive.Watch(nc)
	c.under.Go(c.read)
	c.under.Go(c.out.run)
	return c
}

// NetConn returns the connection below, for its addresses and its state only.
func (c *TCPClient) NetConn() net.Conn { return c.nc }

// Close ends the connection. Calls under way fail, and Close waits until all
// have returned. Close may be called twice.
func (c *TCPClient) Close() error {
	c.fail(net.ErrClosed)
	c.under.Wait()
	return nil
}

// fail ends the connection and all calls. Only the first cause is kept.
func (c *TCPClient) fail(cause error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = fmt.Errorf("%w: %w", ErrClosed, cause)
	calls, placing := c.calls, c.placing
	c.calls = nil
	c.out.endLocked()
	c.mu.Unlock()
	if !errors.Is(cause, net.ErrClosed) {
		abrupt(c.nc) // a Line connects again from the same port
	}
	c.nc.Close()
	for _, cl := range calls {
		if cl != placing { // which ends with the reader
			cl.reply <- outcome{err: c.err}
		}
	}
	close(c.over)
}
