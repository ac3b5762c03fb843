package rpcrdma

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// hints are what somebody has heard of the server, by another way than its
// connection. They may be forged, so they do little, and not often.
type hints struct {
	c    chan struct{} // room for one
	from time.Time
	last atomic.Int64 // when the last was taken, in nanoseconds since from
}

func newHints() *hints {
	h := &hints{c: make(chan struct{}, 1), from: time.Now()}
	h.last.Store(-int64(hintPause))
	return h
}

// Hint says that the server may have been restarted, which the line would find out
// later. A connection that is there is asked at once whether the server is behind it,
// and ended if no answer comes within half a second; an attempt to connect is made at
// once, and not at the end of a pause. One hint in 5 s is taken, and others do
// nothing.
func (l *Client) Hint() {
	h := l.hints
	now, last := int64(time.Since(h.from)), h.last.Load()
	if now-last >= int64(hintPause) && h.last.CompareAndSwap(last, now) {
		notify(h.c)
	}
}

var (
	errHinted = errors.New("rpcrdma: the server is said to have been restarted")
	errDoubt  = errors.New("rpcrdma: the server is said to have been restarted, and does not answer")
)

// hurry ends the pause before the next attempt, and begins with short ones again.
func (r *reconnection) hurry() { r.pause, r.next = 0, time.Time{} }

// attemptUnlessHinted is attempt, which a hint ends: what waits for a server that was
// not there would go on doing so.
func (r *reconnection) attemptUnlessHinted(ctx context.Context) (c *ClientConn, hinted bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-r.hints.c:
			hinted = true
			cancel(errHinted)
		case <-over:
		}
	}()
	c, err = r.attempt(ctx)
	close(over)
	<-ended
	return c, hinted, err
}

// doubt asks whether the server is there, and ends the connection if it does not
// answer. Where slow calls have all credits, it cannot be asked, and nothing follows
// from that.
func (o *observer) doubt() {
	o.asked.Go(func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), hintTime, errDoubt)
		defer cancel()
		heard := o.conn.received.Load()
		if sent, _ := o.line.ask(ctx, o.conn); sent && ctx.Err() != nil && o.conn.received.Load() == heard {
			o.conn.conn.Abort(errDoubt)
		}
	})
}
