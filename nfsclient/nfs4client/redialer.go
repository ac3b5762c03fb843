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
// rpcrdma.ClientConn, or an rpcrdma.Client with Once. Errors from calls whose
// connection was lost wrap oncrpc.ErrClosed or rdma.ErrClosed. A Conn must not
// send a call twice: Session could not tell which changes a restarted server
// may have made.
//
// If a Conn also has the method Abort(cause error), Session calls it before
// Close when the server has not replied in time, because such a server may not
// take part in an orderly shutdown.
type Conn interface {
	oncrpc.Caller
	Close() error
}

// An abortableConn is a Conn that can close without the server's cooperation.
type abortableConn interface{ Abort(cause error) }

// A redialer maintains one connection to a server. A call that finds no
// connection dials.
type redialer struct {
	dial   func(ctx context.Context) (Conn, error)
	giveUp time.Duration

	ctx       context.Context // cancelled by closeConn
	cancel    context.CancelCauseFunc
	current   atomic.Pointer[liveConn]
	sem       chan struct{} // has an element while a goroutine dials
	closing   sync.WaitGroup
	lastCalls atomic.Bool // see announceLastCalls

	// The goroutine that holds sem owns the following fields.
	pause    time.Duration // before the next attempt
	lastConn *liveConn     // nil before the first connection
	gaveUp   bool          // the last call gave up
}

// A liveConn is a connection in use. If a server closes a connection without a
// reply, the redialer pauses before it dials again.
type liveConn struct {
	Conn
	answered atomic.Bool
}

// Pauses between attempts to connect.
const (
	firstDialPause = 20 * time.Millisecond
	lastDialPause  = 5 * time.Second
)

func newRedialer(cfg *Config) *redialer {
	r := &redialer{dial: cfg.Dial, giveUp: cfg.GiveUp, sem: make(chan struct{}, 1)}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	return r
}

// callServer sends a call over the current connection: ctx bounds the wait for
// that, and replyCtx the wait for the reply. If the connection is lost, the call
// may have been executed, and isConnLost(err) holds.
func (r *redialer) callServer(ctx, replyCtx context.Context, x *oncrpc.Exchange) error {
	c := r.current.Load()
	if c == nil {
		var err error
		if c, err = r.connectOnce(ctx); err != nil {
			return err
		}
	}
	err := c.Call(replyCtx, x)
	switch {
	case err != nil && isConnLost(err):
		r.dropConn(c)
	case err == nil && !c.answered.Load():
		c.answered.Store(true)
	}
	return err
}

// dropConn removes and closes a lost connection.
func (r *redialer) dropConn(c *liveConn) {
	if r.current.CompareAndSwap(c, nil) {
		r.closing.Go(func() { _ = c.Close() })
	}
}

// isClosed reports whether closeConn was called.
func (r *redialer) isClosed() bool { return r.ctx.Err() != nil }

// connectOnce returns a new connection. If several calls need one, only one
// dials.
func (r *redialer) connectOnce(ctx context.Context) (*liveConn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() { cancel(ErrClosed) })()
	began := time.Now() // another call may hold sem while this one waits
	select {
	case r.sem <- struct{}{}:
		defer func() { <-r.sem }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c := r.current.Load(); c != nil {
		return c, nil
	}
	isFirst := r.lastConn == nil
	if !isFirst && r.lastConn.answered.Load() {
		r.pause = 0
	}
	singleAttempt := r.lastCalls.Load() && r.gaveUp // do not wait again for an unreachable server
	for {
		if r.pause > 0 && !singleAttempt {
			if err := sleepContext(ctx, r.nextPause(began)); err != nil {
				return nil, err
			}
		}
		r.pause = min(max(2*r.pause, firstDialPause), lastDialPause)
		c, err := r.dial(ctx)
		switch {
		case err == nil:
			return r.setCurrent(c)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case isFirst:
			return nil, err
		case singleAttempt, r.giveUp > 0 && time.Since(began) >= r.giveUp:
			r.gaveUp = true
			return nil, fmt.Errorf("%w for %v: %w", ErrUnreachable, time.Since(began).Round(time.Millisecond), err)
		}
	}
}

// nextPause returns the pause before the next attempt for a call that has
// waited since began. The last attempt is made when the call gives up.
func (r *redialer) nextPause(began time.Time) time.Duration {
	pause := r.pause/2 + rand.N(r.pause/2)
	if r.giveUp > 0 {
		pause = min(pause, max(r.giveUp-time.Since(began), 0))
	}
	return pause
}

// setCurrent makes c the connection for calls.
func (r *redialer) setCurrent(c Conn) (*liveConn, error) {
	live := &liveConn{Conn: c}
	r.lastConn, r.gaveUp = live, false
	r.current.Store(live)
	if r.isClosed() { // closeConn may not have seen the connection
		r.dropConn(live)
		return nil, ErrClosed
	}
	return live, nil
}

// announceLastCalls declares that the following calls are the last: if the
// server was already unreachable, they dial only once.
func (r *redialer) announceLastCalls() { r.lastCalls.Store(true) }

// closeConn closes the connection and waits until it is closed. cause is not
// nil if the last call got no reply in time.
func (r *redialer) closeConn(cause error) {
	r.cancel(ErrClosed)
	if c := r.current.Load(); c != nil {
		if a, ok := c.Conn.(abortableConn); ok && cause != nil {
			a.Abort(cause)
		}
		r.dropConn(c)
	}
	r.sem <- struct{}{} // wait for an attempt to connect
	<-r.sem
	r.closing.Wait()
}

// sleepContext waits for d, or until ctx ends.
func sleepContext(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
