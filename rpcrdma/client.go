package rpcrdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A ClientConfig configures a Client. With the zero value, calls wait for their
// server for ever.
type ClientConfig struct {
	// Conn configures each connection.
	Conn ClientConnConfig

	// Silence is how long a server may give no sign of life (a message, or
	// bytes that move) while calls are under way, before its connection is
	// replaced; 0 means 60 s, below 0 is an error. A call may take longer if
	// the server still answers NULL calls.
	Silence time.Duration

	// GiveUp is how long a call goes on without a server, all its waits
	// together, before the call fails with ErrUnreachable. 0 means for ever;
	// below 0 is an error.
	GiveUp time.Duration

	// Once leaves it to the callers to repeat calls: a call that is lost with the
	// connection fails with rdma.ErrClosed, and so do later calls. A caller that
	// repeats changes must know that the server may have made them.
	Once bool

	// Log receives a message when calls wait for a server that does not come,
	// and when the server is back; nil means slog.Default().
	Log *slog.Logger
}

func (c *ClientConfig) fill() error {
	c.Silence = cmp.Or(c.Silence, defaultSilence)
	c.Log = cmp.Or(c.Log, slog.Default())
	switch {
	case c.Silence < looks:
		return fmt.Errorf("rpcrdma: a silence of %v cannot be noticed", c.Silence)
	case c.GiveUp < 0:
		return fmt.Errorf("rpcrdma: a timeout of %v for calls is not possible", c.GiveUp)
	}
	return c.Conn.fill()
}

// A Client makes calls to one server, over one connection at a time. If a
// connection is lost, the Client replaces it and sends the calls that were
// under way again with their XIDs, by which a server recognizes executed calls
// (RFC 5531, Section 4). Only the end of the connection or a silent server
// causes that: RPC errors and RDMA_ERRORs are answers. Client implements
// oncrpc.Caller.
type Client struct {
	dialer rdma.Dialer
	addr   string
	cfg    ClientConfig
	xids   *xids

	live    atomic.Pointer[ClientConn] // nil: no connection
	calls   atomic.Int64               // under way
	program atomic.Uint64              // program and version called last
	watched atomic.Bool                // the goroutine that runs the connection checks for signs of life
	busy    chan struct{}              // starts those checks; room for one
	want    chan struct{}              // a call waits for a connection; room for one
	hints   *hints                     // that the server may be back

	quit context.CancelFunc
	over chan struct{} // closed when the Client's goroutines are done

	mu      sync.Mutex
	last    *ClientConn
	closed  bool
	changed chan struct{} // closed when a connection is published or the Client is closed
	waiting int           // calls that wait for a connection
	relax   func()        // ends the attempts to connect; nil: none is being made
	down    time.Time     // when the connection was lost, or earlier, when the server fell silent
	silent  time.Time     // since when no sign of life was seen; zero: not silent
	lostBy  error         // why the connection was lost
	failed  error         // why the last attempt to replace it failed; nil: no attempt failed
}

var _ oncrpc.Caller = (*Client)(nil)

// Dial makes a Client of a server, whose address is host and port. It tries
// once, and returns the dialer's error.
func Dial(ctx context.Context, d rdma.Dialer, addr string, cfg ClientConfig) (*Client, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	l := &Client{
		dialer: d, addr: addr, cfg: cfg, xids: newXIDs(),
		busy: make(chan struct{}, 1), want: make(chan struct{}, 1), hints: newHints(),
		over: make(chan struct{}), changed: make(chan struct{}),
	}
	c, err := dial(ctx, d, addr, cfg.Conn, l.xids, l)
	if err != nil {
		return nil, err
	}
	l.publish(c)
	life, quit := context.WithCancel(context.Background())
	l.quit = quit
	go l.run(life, c)
	return l, nil
}

// Call makes a call (oncrpc.Caller), and repeats the call over the next
// connection if a connection is lost, unless ClientConfig.Once is set. When ctx ends, Call returns as soon as
// the call's memory is protected.
func (l *Client) Call(ctx context.Context, x *oncrpc.Exchange) error {
	l.begin(x)
	defer l.calls.Add(-1)
	c := l.live.Load()
	switch {
	case c == nil && l.cfg.Once:
		return fmt.Errorf("rpcrdma: connection to %s: %w", l.addr, rdma.ErrClosed)
	case c == nil:
		return l.persist(ctx, x, x.XID, nil)
	}
	xid, err := c.call(ctx, x, x.XID)
	if errors.Is(err, rdma.ErrClosed) && !l.cfg.Once {
		return l.persist(ctx, x, xid, c)
	}
	return err
}

// begin counts a call, and wakes the goroutine that checks for signs of life.
func (l *Client) begin(x *oncrpc.Exchange) {
	l.calls.Add(1)
	if p := uint64(x.Prog)<<32 | uint64(x.Vers); l.program.Load() != p {
		l.program.Store(p)
	}
	if !l.watched.Load() && l.watched.CompareAndSwap(false, true) {
		notify(l.busy)
	}
}

// notify sends to a channel with room for one, without waiting.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // already notified
	}
}

// Conn returns the current connection, or the last.
func (l *Client) Conn() *ClientConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Up reports whether the Client has a connection and its server is not silent.
func (l *Client) Up() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live.Load() != nil && l.silent.IsZero()
}

// Close ends the Client. Calls under way fail with rdma.ErrClosed. Close may be
// called twice.
func (l *Client) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.changed)
	}
	l.mu.Unlock()
	l.quit()
	<-l.over
	return nil
}
