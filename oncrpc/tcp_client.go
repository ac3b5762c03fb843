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
	// Machine is the name in AUTH_SYS credentials, truncated to 255 bytes; "" means the
	// host's name.
	Machine string
}

// ErrClosed is the error of calls whose connection has closed. It wraps the
// cause: net.ErrClosed after Close, io.EOF if the server closed the connection,
// or another error.
var ErrClosed = errors.New("oncrpc: connection closed")

// A TCPClient makes calls to any program over one connection, with record marking (RFC
// 5531, Section 11). It implements Caller: many goroutines may make calls concurrently,
// and replies may come in any order. A call is never sent twice; the caller of an
// abandoned call may make it again.
//
//	Call ──▶ waiting ──▶ batch ──one writev──▶ server
//	  ▲                                          │
//	  └────── reply, by its XID ◀── record ◀─────┘
//
// A data item is sent inline: Results point to the reply, unless the reply is long and
// the call can locate its item, which is then received into Sink.
type TCPClient struct {
	nc      net.Conn
	machine string
	in      recordReader // owned by the reader goroutine
	out     callWriter   // owned by the writer goroutine

	xids     *XIDs
	received atomic.Uint64 // received records

	active   sync.WaitGroup // the two goroutines, and the calls
	callPool sync.Pool      // contains *clientCall
	done     chan struct{}  // closed when the connection has ended

	mu            sync.Mutex
	calls         map[uint32]*clientCall // unanswered, by XID
	placing       *clientCall            // the call whose Sink the reader writes to, or nil
	evicting      bool                   // placing's caller has given up: the read deadline has passed
	maxReply      int                    // the longest reply that any call so far allows, in bytes
	overdueChecks int                    // CheckOverdue calls so far
	err           error                  // why the connection closed
}

var _ Caller = (*TCPClient)(nil)

// DialTCP connects to a server. The address is host and port. ctx bounds only
// the time to connect; the connection lives until Close.
func DialTCP(ctx context.Context, addr string, cfg ClientConfig) (*TCPClient, error) {
	d := net.Dialer{Control: samehost.ControlDial}
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
		cfg.Machine, _ = os.Hostname() // servers do not rely on this name
	}
	c := &TCPClient{
		nc: nc, machine: cfg.Machine,
		xids: ids, calls: make(map[uint32]*clientCall), done: make(chan struct{}),
	}
	c.in = recordReader{br: bufio.NewReaderSize(nc, readBuffer), reserve: func(int) error { return nil }}
	c.out.init(c)
	keepalive.Watch(nc)
	c.active.Go(c.readReplies)
	c.active.Go(c.out.run)
	return c
}

// NetConn returns the underlying connection, for its addresses and its state only.
func (c *TCPClient) NetConn() net.Conn { return c.nc }

// Close closes the connection. Calls in progress fail, and Close waits until all have
// returned. Close may be called twice.
func (c *TCPClient) Close() error {
	c.closeWith(net.ErrClosed)
	c.active.Wait()
	return nil
}

// closeWith closes the connection and fails all calls. Only the first cause is kept.
func (c *TCPClient) closeWith(cause error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = fmt.Errorf("%w: %w", ErrClosed, cause)
	calls, placing := c.calls, c.placing
	c.calls = nil
	c.out.stopLocked()
	c.mu.Unlock()
	if !errors.Is(cause, net.ErrClosed) {
		resetOnClose(c.nc) // a Line connects again from the same port
	}
	c.nc.Close()
	for _, cl := range calls {
		if cl != placing { // the reader fails it
			cl.reply <- outcome{err: c.err}
		}
	}
	close(c.done)
}
