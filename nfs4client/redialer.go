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

// A redialer is the way to a server: one connection at a time. A call that finds no
// connection makes a connection.
type redialer struct {
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

func newRedialer(cfg *Config) *redialer {
	r := &redialer{dial: cfg.Dial, giveUp: cfg.GiveUp, turn: make(chan struct{}, 1)}
	r.life, r.end = context.WithCancelCause(context.Background())
	return r
}

// call makes a call over the present connection. If the connection ends, the
// call may have been executed, and the error is lost.
func (r *redialer) call(ctx context.Context, x *oncrpc.Exchange) error {
	c := r.live.Load()
	if c == nil {
		var err error
		if c, err = r.connect(ctx); err != nil {
			return err
		}
	}
	err := c.Call(ctx, x)
	switch {
	case err != nil && lost(err):
		r.drop(c)
	case err == nil && !c.answered.Load():
		c.answered.Store(true)
	}
	return err
}

// drop forgets a connection that has ended.
func (r *redialer) drop(c *liveConn) {
	if r.live.CompareAndSwap(c, nil) {
		r.closing.Go(func() { _ = c.Close() })
	}
}

// closed reports whether close was called.
func (r *redialer) closed() bool { return r.life.Err() != nil }

// connect makes a connection. Of several calls, one connects.
func (r *redialer) connect(ctx context.Context) (*liveConn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.life, func() { cancel(ErrClosed) })()
	began := time.Now() // another call may have its turn for as long as this one waits
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c := r.live.Load(); c != nil {
		return c, nil
	}
	first := r.last == nil
	if !first && r.last.answered.Load() {
		r.pause = 0
	}
	once := r.leaving.Load() && r.gone // no second wait for a server that is away
	for {
		if r.pause > 0 && !once {
			if err := sleep(ctx, r.before(began)); err != nil {
				return nil, err
			}
		}
		r.pause = min(max(2*r.pause, firstPause), lastPause)
		c, err := r.dial(ctx)
		switch {
		case err == nil:
			return r.publish(c)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case first:
			return nil, err
		case once, r.giveUp > 0 && time.Since(began) >= r.giveUp:
			r.gone = true
			return nil, fmt.Errorf("%w for %v: %w", ErrUnreachable, time.Since(began).Round(time.Millisecond), err)
		}
	}
}

// before returns the pause before the next attempt of a call that has waited
// since began. The last attempt comes when the call gives up.
func (r *redialer) before(began time.Time) time.Duration {
	pause := r.pause/2 + rand.N(r.pause/2)
	if r.giveUp > 0 {
		pause = min(pause, max(r.giveUp-time.Since(began), 0))
	}
	return pause
}

// publish lets calls use c.
func (r *redialer) publish(c Conn) (*liveConn, error) {
	live := &liveConn{Conn: c}
	r.last, r.gone = live, false
	r.live.Store(live)
	if r.closed() { // close may not have seen the connection
		r.drop(live)
		return nil, ErrClosed
	}
	return live, nil
}

// depart says that the calls that follow are the last, which need no server that
// has been given up.
func (r *redialer) depart() { r.leaving.Store(true) }

// close ends the connection and waits for its end. cause is not nil if the last
// call had no answer in time.
func (r *redialer) close(cause error) {
	r.end(ErrClosed)
	if c := r.live.Load(); c != nil {
		if a, ok := c.Conn.(aborter); ok && cause != nil {
			a.Abort(cause)
		}
		r.drop(c)
	}
	r.turn <- struct{}{} // until an attempt to connect has ended
	<-r.turn
	r.closing.Wait()
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
