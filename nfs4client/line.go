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
// rpcrdma.ClientConn or an rpcrdma.Client. Errors of calls whose connection has
// ended wrap oncrpc.ErrClosed or rdma.ErrClosed.
type Conn interface {
	oncrpc.Caller
	Close() error
}

// A line is the way to a server: one connection at a time. A call that finds no
// connection makes a connection.
type line struct {
	dial   func(ctx context.Context) (Conn, error)
	giveUp time.Duration

	live    atomic.Pointer[liveConn]
	turn    chan struct{} // has an element while a goroutine connects
	closing sync.WaitGroup
	closed  atomic.Bool

	// Of the goroutine whose turn it is.
	pause time.Duration // before the next attempt
	last  *liveConn     // nil: there was no connection yet
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
	return &line{dial: cfg.Dial, giveUp: cfg.GiveUp, turn: make(chan struct{}, 1)}
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

// connect makes a connection. Of several calls, one connects.
func (l *line) connect(ctx context.Context) (*liveConn, error) {
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
	began := time.Now()
	for {
		if l.pause > 0 {
			if err := sleep(ctx, l.pause/2+rand.N(l.pause/2)); err != nil {
				return nil, err
			}
		}
		l.pause = min(max(2*l.pause, firstPause), lastPause)
		if l.closed.Load() {
			return nil, ErrClosed
		}
		c, err := l.dial(ctx)
		switch {
		case err == nil:
			return l.publish(c)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case first:
			return nil, err
		case l.giveUp > 0 && time.Since(began) > l.giveUp:
			return nil, fmt.Errorf("%w for %v: %w", ErrUnreachable, time.Since(began).Round(time.Millisecond), err)
		}
	}
}

// publish lets calls use c.
func (l *line) publish(c Conn) (*liveConn, error) {
	live := &liveConn{Conn: c}
	l.last = live
	l.live.Store(live)
	if l.closed.Load() { // close may not have seen the connection
		l.drop(live)
		return nil, ErrClosed
	}
	return live, nil
}

// close ends the connection and waits for its end.
func (l *line) close() {
	l.closed.Store(true)
	if c := l.live.Load(); c != nil {
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
