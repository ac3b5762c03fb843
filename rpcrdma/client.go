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

// A ClientConfig is how a Client behaves. The zero value makes calls that wait for
// their server for ever.
type ClientConfig struct {
	// Conn is how each of the connections behaves.
	Conn ClientConnConfig

	// Silence is how long a server may give no sign of life (a message, or
	// octets that move) while calls are under way, before its connection
	// is replaced; 0 means 60 s, below 0 is an error. A call may take
	// longer where the server answers one that does nothing.
	Silence time.Duration

	// GiveUp is how long a call goes on without a server, all its waits
	// together; it fails with ErrUnreachable then. 0 means for ever; below
	// 0 is an error.
	GiveUp time.Duration

	// Log is told when calls wait for a server that does not come, and
	// when it has come; nil means slog.Default().
	Log *slog.Logger
}

func (c *ClientConfig) fill() error {
	c.Silence = cmp.Or(c.Silence, defaultSilence)
	c.Log = cmp.Or(c.Log, slog.Default())
	switch {
	case c.Silence < looks:
		return fmt.Errorf("rpcrdma: a silence of %v cannot be noticed", c.Silence)
	case c.GiveUp < 0:
		return fmt.Errorf("rpcrdma: calls cannot be given up after %v", c.GiveUp)
	}
	return c.Conn.fill()
}

// A Client makes calls to one server, over one connection at a time. A lost
// connection is replaced, and the calls that were under way are sent again, with
// their XIDs, by which a server knows what it has executed (RFC 5531, Section
// 4). Only the connection's end and a silent server make it do so: RPC errors
// and RDMA_ERRORs are answers. It implements oncrpc.Caller.
type Client struct {
	dialer rdma.Dialer
	addr   string
	cfg    ClientConfig
	xids   *xids

	live    atomic.Pointer[ClientConn] // nil: no connection
	calls   atomic.Int64               // under way
	program atomic.Uint64              // program and version called last
	watched atomic.Bool                // whoever runs the connection looks for signs of life
	busy    chan struct{}              // to make it look; room for one
	want    chan struct{}              // a call waits for a connection; room for one
	hints   *hints                     // of a server that is there again

	quit context.CancelFunc
	over chan struct{} // closed when nothing of the line runs

	mu      sync.Mutex
	last    *ClientConn
	closed  bool
	changed chan struct{} // closed when there is a connection, or the line is closed
	waiting int           // calls that wait for a connection
	relax   func()        // ends the effort to make one; nil: there is none
	down    time.Time     // when the connection was lost, or the server fell silent before
	silent  time.Time     // since when there is no sign of life; zero: there is
	lostBy  error         // why the connection was lost
	failed  error         // why the last attempt to replace it failed; nil: there was none
}

var _ oncrpc.Caller = (*Client)(nil)

// Dial makes a line to a server, whose address is host and port. It tries
// once, and its error is the dialer's.
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

// Call makes a call (oncrpc.Caller), and again over the next connection where
// one is lost. When ctx ends, it returns as soon as the call's memory is
// protected.
func (l *Client) Call(ctx context.Context, x *oncrpc.Exchange) error {
	l.begin(x)
	defer l.calls.Add(-1)
	c := l.live.Load()
	if c == nil {
		return l.persist(ctx, x, 0, nil)
	}
	xid, err := c.call(ctx, x, 0)
	if errors.Is(err, rdma.ErrClosed) {
		return l.persist(ctx, x, xid, c)
	}
	return err
}

// begin notes a call, and wakes whoever looks for signs of life.
func (l *Client) begin(x *oncrpc.Exchange) {
	l.calls.Add(1)
	if p := uint64(x.Prog)<<32 | uint64(x.Vers); l.program.Load() != p {
		l.program.Store(p)
	}
	if !l.watched.Load() && l.watched.CompareAndSwap(false, true) {
		notify(l.busy)
	}
}

// notify leaves a word in a channel with room for one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is one
	}
}

// Conn returns the present connection, or the last.
func (l *Client) Conn() *ClientConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Up tells whether there is a connection, and signs of life where calls are
// under way.
func (l *Client) Up() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live.Load() != nil && l.silent.IsZero()
}

// Close ends the line. Calls under way fail with rdma.ErrClosed. It may be
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
