package oncrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A LineConfig configures a Line. Dial, Server and Closed are required; with the
// zero value of all others, calls wait for their server for ever.
type LineConfig struct {
	// Dial makes a connection of the Line, whose calls have XIDs of Line.XIDs.
	Dial func(ctx context.Context, l *Line) (LineConn, error)

	// Server names the server in errors and in the log: host and port.
	Server string

	// Closed is wrapped by the errors of calls that are lost with their connection,
	// and by those of a closed Line.
	Closed error

	// Eager replaces a lost connection even if no call wants one: the server may want
	// to call back.
	Eager bool

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
	// connection fails with Closed, and so do later calls. A caller that
	// repeats changes must know that the server may have made them.
	Once bool

	// Log receives a message when calls wait for a server that does not come,
	// and when the server is back; nil means slog.Default().
	Log *slog.Logger
}

func (c *LineConfig) fill() error {
	c.Silence = cmp.Or(c.Silence, defaultSilence)
	c.Log = cmp.Or(c.Log, slog.Default())
	switch {
	case c.Silence < looks:
		return fmt.Errorf("oncrpc: a silence of %v cannot be noticed", c.Silence)
	case c.GiveUp < 0:
		return fmt.Errorf("oncrpc: a timeout of %v for calls is not possible", c.GiveUp)
	}
	return nil
}

// A LineConn is one connection of a Line. It ends for good when it is lost.
type LineConn interface {
	Caller

	// Transmit makes a call, as Caller.Call does, with the XID of its earlier
	// transmission; xid 0 means a new XID. It returns the XID, or 0 if the call has
	// none, because it was never sent.
	Transmit(ctx context.Context, x *Exchange, xid uint32) (uint32, error)

	// Received returns how many messages the server has sent.
	Received() uint64

	// Traffic returns how many bytes the server has sent, and how many of this end's
	// bytes its kernel has taken; 0 if unknown.
	Traffic() (in, out uint64)

	// CheckOverdue returns for how many checks the server has owed the reply that a
	// caller has waited for longest, and counts this check.
	CheckOverdue() int

	// Done is closed when the connection has ended. Cause then returns why.
	Done() <-chan struct{}
	Cause() error

	// Abort ends the connection at once. Close ends it in good order, and waits until
	// nothing of it is left.
	Abort(cause error)
	Close() error
}

// A lineConn has an identity.
type lineConn struct{ LineConn }

// A Line makes calls to one server, over one connection at a time. If a
// connection is lost, the Line replaces it and sends the calls that were
// under way again with their XIDs, by which a server recognizes executed calls
// (RFC 5531, Section 4). Only the end of the connection or a silent server
// causes that: errors of RPC and of its transport are answers. Line implements
// Caller.
type Line struct {
	cfg  LineConfig
	xids *XIDs

	live    atomic.Pointer[lineConn] // nil: no connection
	calls   atomic.Int64             // under way
	program atomic.Uint64            // program and version called last
	watched atomic.Bool              // the goroutine that runs the connection checks for signs of life
	busy    chan struct{}            // starts those checks; room for one
	want    chan struct{}            // a call waits for a connection; room for one
	hints   *hints                   // that the server may be back

	quit context.CancelFunc
	over chan struct{} // closed when the Line's goroutines are done

	mu      sync.Mutex
	last    *lineConn
	closed  bool
	changed chan struct{} // closed when a connection is published or the Line is closed
	waiting int           // calls that wait for a connection
	relax   func()        // ends the attempts to connect; nil: none is being made
	down    time.Time     // when the connection was lost, or earlier, when the server fell silent
	silent  time.Time     // since when no sign of life was seen; zero: not silent
	lostBy  error         // why the connection was lost
	failed  error         // why the last attempt to replace it failed; nil: no attempt failed
}

var _ Caller = (*Line)(nil)

// NewLine makes a Line and its first connection. It tries once, and returns the
// error of Dial.
func NewLine(ctx context.Context, cfg LineConfig) (*Line, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	l := &Line{
		cfg: cfg, xids: NewXIDs(rand.Uint32()),
		busy: make(chan struct{}, 1), want: make(chan struct{}, 1), hints: newHints(),
		over: make(chan struct{}), changed: make(chan struct{}),
	}
	made, err := cfg.Dial(ctx, l)
	if err != nil {
		return nil, err
	}
	c := &lineConn{made}
	l.publish(c)
	life, quit := context.WithCancel(context.Background())
	l.quit = quit
	go l.run(life, c)
	return l, nil
}

// XIDs returns the XIDs of the Line's calls.
func (l *Line) XIDs() *XIDs { return l.xids }

// Call makes a call (Caller), and repeats the call over the next
// connection if a connection is lost, unless LineConfig.Once is set. When ctx ends, Call returns as soon as
// the call's memory is the caller's again.
func (l *Line) Call(ctx context.Context, x *Exchange) error {
	l.Begin(x)
	defer l.End()
	c := l.live.Load()
	switch {
	case c == nil && l.cfg.Once:
		return fmt.Errorf("oncrpc: connection to %s: %w", l.cfg.Server, l.cfg.Closed)
	case c == nil:
		return l.persist(ctx, x, x.XID, nil)
	}
	xid, err := c.Transmit(ctx, x, x.XID)
	if errors.Is(err, l.cfg.Closed) && !l.cfg.Once {
		return l.persist(ctx, x, xid, c)
	}
	return err
}

// Begin counts a call under way, during which the server must give signs of life.
// The methods of Line do so themselves; who makes a call over a connection of the
// Line must call Begin before it, and End after it.
func (l *Line) Begin(x *Exchange) {
	l.calls.Add(1)
	if p := uint64(x.Prog)<<32 | uint64(x.Vers); l.program.Load() != p {
		l.program.Store(p)
	}
	if !l.watched.Load() && l.watched.CompareAndSwap(false, true) {
		notify(l.busy)
	}
}

// End ends what Begin has begun.
func (l *Line) End() { l.calls.Add(-1) }

// notify sends to a channel with room for one, without waiting.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // already notified
	}
}

// Conn returns the current connection, or the last.
func (l *Line) Conn() LineConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.LineConn
}

// Up reports whether the Line has a connection and its server is not silent.
func (l *Line) Up() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live.Load() != nil && l.silent.IsZero()
}

// Close ends the Line. Calls under way fail with LineConfig.Closed. Close may be
// called twice.
func (l *Line) Close() error {
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
