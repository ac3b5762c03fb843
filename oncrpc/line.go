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

// A LineConfig configures a Line. Dial, Server and Closed are required; if all others are
// zero, calls wait for their server forever.
type LineConfig struct {
	// Dial makes a connection for the Line, whose calls use XIDs from Line.XIDs.
	Dial func(ctx context.Context, l *Line) (LineConn, error)

	// Server names the server in errors and in the log: host and port.
	Server string

	// Closed is wrapped by the errors of calls that are lost with their connection, and
	// by a closed Line's errors.
	Closed error

	// Eager replaces a lost connection even if no call needs one: the server may want to
	// call back.
	Eager bool

	// Silence is the time that a server may give no sign of life (a message, or bytes
	// that move) while calls are in flight, before its connection is replaced; 0 means 60
	// s, below 0 is an error. A call may take longer if the server still replies to NULL
	// calls.
	Silence time.Duration

	// GiveUp is the total time that a call waits for a server before it fails with
	// ErrUnreachable. 0 means forever; below 0 is an error.
	GiveUp time.Duration

	// MaxPause is the longest pause between attempts to connect; 0 means 5 s.
	MaxPause time.Duration

	// Doubt, if not nil, is called every half second while calls are in flight to a server
	// that has sent nothing for at least that time. It may look for another server, and
	// abort the connection. ctx ends with the connection, or after 5 s.
	Doubt func(ctx context.Context)

	// Once leaves retries to the callers: a call that is lost with the
	// connection fails with Closed, and so do later calls. A caller that
	// repeats changes must know that the server may have made them.
	Once bool

	// Log receives a message when calls wait for an unresponsive server, and when the
	// server is back; nil means slog.Default().
	Log *slog.Logger
}

func (c *LineConfig) setDefaults() error {
	c.Silence = cmp.Or(c.Silence, defaultSilence)
	c.MaxPause = cmp.Or(c.MaxPause, maxPause)
	c.Log = cmp.Or(c.Log, slog.Default())
	switch {
	case c.Silence < checksPerSilence:
		return fmt.Errorf("oncrpc: a silence limit of %v is too short", c.Silence)
	case c.GiveUp < 0:
		return fmt.Errorf("oncrpc: a timeout of %v for calls is not possible", c.GiveUp)
	}
	return nil
}

// A LineConn is one of a Line's connections. Once lost, it is never used again.
type LineConn interface {
	Caller

	// Transmit sends a call and waits for its reply, as Caller.Call does, with the XID
	// that it had before; xid 0 means a new XID. It returns the XID, or 0 if the call has
	// none, because it was never sent.
	Transmit(ctx context.Context, x *Exchange, xid uint32) (uint32, error)

	// Received returns how many messages the server has sent.
	Received() uint64

	// Traffic returns the number of bytes that the server has sent, and the number that
	// its kernel has acknowledged; 0 if unknown.
	Traffic() (in, out uint64)

	// CheckOverdue returns the number of checks since the oldest unanswered call was
	// sent, and counts this check.
	CheckOverdue() int

	// Done is closed when the connection has ended. Cause then returns the reason.
	Done() <-chan struct{}
	Cause() error

	// Abort closes the connection at once. Close closes it gracefully, and waits until
	// all its resources are released.
	Abort(cause error)
	Close() error
}

// A lineConn gives a LineConn an identity.
type lineConn struct{ LineConn }

// A Line makes calls to one server, over one connection at a time. If a connection is
// lost, the Line replaces it and retransmits the calls in flight with their XIDs, by
// which a server recognizes executed calls (RFC 5531, Section 4). Only a closed
// connection or a silent server causes that: RPC and transport errors are final. Line
// implements Caller.
type Line struct {
	cfg  LineConfig
	xids *XIDs

	current     atomic.Pointer[lineConn] // nil: no connection
	inFlight    atomic.Int64             // in progress
	program     atomic.Uint64            // program and version called last
	watched     atomic.Bool              // the connection's goroutine checks for signs of life
	callStarted chan struct{}            // starts those checks; capacity 1
	connWanted  chan struct{}            // a call waits for a connection; capacity 1
	hints       *hints                   // that the server may be back

	cancel context.CancelFunc
	done   chan struct{} // closed when the Line's goroutines are done

	mu          sync.Mutex
	lastConn    *lineConn
	closed      bool
	changed     chan struct{} // closed when a connection is published or the Line is closed
	waiters     int           // calls that wait for a connection
	cancelDial  func()        // cancels the attempts to connect; nil: none is in progress
	downSince   time.Time     // when the connection was lost, or earlier, when the server fell silent
	silentSince time.Time     // since when no sign of life was seen; zero: not silent
	lostCause   error         // why the connection was lost
	dialErr     error         // why the last attempt to replace it failed; nil: no attempt failed
}

var _ Caller = (*Line)(nil)

// NewLine makes a Line and its first connection. It tries once, and returns Dial's error.
func NewLine(ctx context.Context, cfg LineConfig) (*Line, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	l := &Line{
		cfg: cfg, xids: NewXIDs(rand.Uint32()),
		callStarted: make(chan struct{}, 1), connWanted: make(chan struct{}, 1), hints: newHints(),
		done: make(chan struct{}), changed: make(chan struct{}),
	}
	made, err := cfg.Dial(ctx, l)
	if err != nil {
		return nil, err
	}
	c := &lineConn{made}
	l.publishConn(c)
	life, quit := context.WithCancel(context.Background())
	l.cancel = quit
	go l.run(life, c)
	return l, nil
}

// XIDs returns the XIDs of the Line's calls.
func (l *Line) XIDs() *XIDs { return l.xids }

// Call makes a call (Caller), and repeats the call over the next connection if a
// connection is lost, unless LineConfig.Once is set. When ctx ends, Call returns as soon
// as the caller may reuse the call's memory.
func (l *Line) Call(ctx context.Context, x *Exchange) error {
	l.Begin(x)
	defer l.End()
	c := l.current.Load()
	switch {
	case c == nil && l.cfg.Once:
		return fmt.Errorf("oncrpc: connection to %s: %w", l.cfg.Server, l.cfg.Closed)
	case c == nil:
		return l.retryCall(ctx, x, x.XID, nil)
	}
	xid, err := c.Transmit(ctx, x, x.XID)
	if errors.Is(err, l.cfg.Closed) && !l.cfg.Once {
		return l.retryCall(ctx, x, xid, c)
	}
	return err
}

// Begin counts a call in flight, during which the server must give signs of life. Line's
// methods do so themselves; code that makes a call directly over one of the Line's
// connections must call Begin before it, and End after it.
func (l *Line) Begin(x *Exchange) {
	l.inFlight.Add(1)
	if p := uint64(x.Prog)<<32 | uint64(x.Vers); l.program.Load() != p {
		l.program.Store(p)
	}
	if !l.watched.Load() && l.watched.CompareAndSwap(false, true) {
		notify(l.callStarted)
	}
}

// End removes a call that Begin counted.
func (l *Line) End() { l.inFlight.Add(-1) }

// notify sends to a channel with capacity 1, without waiting.
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
	return l.lastConn.LineConn
}

// Up reports whether the Line has a connection and its server is not silent.
func (l *Line) Up() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.Load() != nil && l.silentSince.IsZero()
}

// Close closes the Line. Calls in progress fail with LineConfig.Closed. Close may be
// called twice.
func (l *Line) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.changed)
	}
	l.mu.Unlock()
	l.cancel()
	<-l.done
	return nil
}
