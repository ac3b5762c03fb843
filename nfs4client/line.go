package nfs4client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Conn is a connection to a server: an oncrpc.TCPClient, an
// rpcrdma.ClientConn, or an rpcrdma.Client with Once. Errors of calls whose
// connection has ended wrap oncrpc.ErrClosed or rdma.ErrClosed. A Conn sends no
// call twice: Session could not tell which changes a server that has restarted
// may have made.
//
// If a Conn also has the method Abort(cause error), Session calls it before Close
// when the server has not answered in time: such a server may take no part in an
// orderly end.
type Conn interface {
	oncrpc.Caller
	Close() error
}

// An aborter is a Conn that can end without the server.
type aborter interface{ Abort(cause error) }

// A line is the way to a server: one connection at a time. A call that finds no
// connection makes a connection.
type line struct {
	dial   func(ctx context.Context) (Conn, error)
	giveUp time.Duration

	life    context.Context // ended by close
	end     context.CancelCauseFunc
	live    atomic.Pointer[liveConn]
	turn    chan struct{} // has an element while a goroutine connects
	closing sync.WaitGroup
	leaving atomic.Bool // see depart

	// Of the goroutine whose turn it is.
	pause time.Duration // before the next attempt
	last  *liveConn     // nil: there was no connection yet
	gone  bool          // the last call has given up
}

// A liveConn is a connection in use. A server that ends connections without an
// answer is called again after a pause only.
type liveConn struct {
	Conn
	answered atomic.Bool
}

// Pauses between attempts to connect.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 5 * time.Second
)

func newLine(cfg *Config) *line {
	l := &line{dial: cfg.Dial, giveUp: cfg.GiveUp, turn: make(chan struct{}, 1)}
	l.life, l.end = context.WithCancelCause(context.Background())
	return l
}

// call makes a call over the present connection. If the connection ends, the
// call may have been executed, and the error is lost.
func (l *line) call(ctx context.Context, x *oncrpc.Exchange) error {
	c := l.live.Load()
	if c == nil {
		var err error
		if c, err = l.connect(ctx); err != nil {
			return err
		}
	}
	err := c.Call(ctx, x)
	switch {
	case err != nil && lost(err):
		l.drop(c)
	case err == nil && !c.answered.Load():
		c.answered.Store(true)
	}
	return err
}

// drop forgets a connection that has ended.
func (l *line) drop(c *liveConn) {
	if l.live.CompareAndSwap(c, nil) {
		l.closing.Go(func() { _ = c.Close() })
	}
}

// closed reports whether close was called.
func (l *line) closed() bool { return l.life.Err() != nil }

// connect makes a connection. Of several calls, one connects.
func (l *line) connect(ctx context.Context) (*liveConn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.life, func() { cancel(ErrClosed) })()
	began := time.Now() // another call may have its turn for as long as this one waits
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c := l.live.Load(); c != nil {
		return c, nil
	}
	first := l.last == nil
	if !first && l.last.answered.Load() {
		l.pause = 0
	}
	once := l.leaving.Load() && l.gone // no second wait for a server that is away
	for {
		if l.pause > 0 && !once {
			if err := sleep(ctx, l.before(began)); err != nil {
				return nil, err
			}
		}
		l.pause = min(max(2*l.pause, firstPause), lastPause)
		c, err := l.dial(ctx)
		switch {
		case err == nil:
			return l.publish(c)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case first:
			return nil, err
		case once, l.giveUp > 0 && time.Since(began) >= l.giveUp:
			l.gone = true
			return nil, fmt.Errorf("%w for %v: %w", ErrUnreachable, time.Since(began).Round(time.Millisecond), err)
		}
	}
}

// before returns the pause before the next attempt of a call that has waited
// since began. The last attempt comes when the call gives up.
func (l *line) before(began time.Time) time.Duration {
	pause := l.pause/2 + rand.N(l.pause/2)
	if l.giveUp > 0 {
		pause = min(pause, max(l.giveUp-time.Since(began), 0))
	}
	return pause
}

// publish lets calls use c.
func (l *line) publish(c Conn) (*liveConn, error) {
	live := &liveConn{Conn: c}
	l.last, l.gone = live, false
	l.live.Store(live)
	if l.closed() { // close may not have seen the connection
		l.drop(live)
		return nil, ErrClosed
	}
	return live, nil
}

// depart says that the calls that follow are the last, which need no server that
// has been given up.
func (l *line) depart() { l.leaving.Store(true) }

// close ends the connection and waits for its end. cause is not nil if the last
// call had no answer in time.
func (l *line) close(cause error) {
	l.end(ErrClosed)
	if c := l.live.Load(); c != nil {
		if a, ok := c.Conn.(aborter); ok && cause != nil {
			a.Abort(cause)
		}
		l.drop(c)
	}
	l.turn <- struct{}{} // until an attempt to connect has ended
	<-l.turn
	l.closing.Wait()
}

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
