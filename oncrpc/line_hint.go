package oncrpc

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// hints holds news of the server that arrived by another way than its
// connection. Hints may be forged, so their effect is small and rate-limited.
type hints struct {
	c    chan struct{} // has room for one hint
	from time.Time
	last atomic.Int64 // when the last hint was taken, in nanoseconds since from
}

func newHints() *hints {
	h := &hints{c: make(chan struct{}, 1), from: time.Now()}
	h.last.Store(-int64(hintPause))
	return h
}

// Hint reports that the server may have been restarted, which the Line would
// notice later. An existing connection is tested at once: the connection ends
// if the server does not answer within half a second. Without a connection, an
// attempt to connect is made at once instead of at the end of a pause. One hint
// in 5 s is taken; others have no effect.
func (l *Line) Hint() {
	h := l.hints
	now, last := int64(time.Since(h.from)), h.last.Load()
	if now-last >= int64(hintPause) && h.last.CompareAndSwap(last, now) {
		notify(h.c)
	}
}

var (
	errHinted = errors.New("oncrpc: the server is said to have been restarted")
	errDoubt  = errors.New("oncrpc: the server is said to have been restarted, and does not answer")
)

// hurry ends the pause before the next attempt, and starts over with short
// pauses.
func (r *reconnection) hurry() { r.pause, r.next = 0, time.Time{} }

// attemptUnlessHinted is attempt, except that a hint ends it: an attempt begun
// while the server was away could wait on in vain.
func (r *reconnection) attemptUnlessHinted(ctx context.Context) (c *lineConn, hinted bool, err error) {
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

// doubt asks the server for a sign of life, and ends the connection if it does
// not answer. If slow calls have all credits, doubt cannot ask, and the
// connection stays.
func (o *observer) doubt() {
	o.asked.Go(func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), hintTime, errDoubt)
		defer cancel()
		heard := o.conn.Received()
		if sent, _ := o.line.ask(ctx, o.conn); sent && ctx.Err() != nil && o.conn.Received() == heard {
			o.conn.Abort(errDoubt)
		}
	})
}
