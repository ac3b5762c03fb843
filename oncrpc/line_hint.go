package oncrpc

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// hints holds notifications about the server that did not arrive over its connection.
// Hints may be forged, so their effect is small and rate-limited.
type hints struct {
	pending   chan struct{} // capacity 1
	start     time.Time
	lastTaken atomic.Int64 // when the last hint was accepted, in nanoseconds since from
}

func newHints() *hints {
	h := &hints{pending: make(chan struct{}, 1), start: time.Now()}
	h.lastTaken.Store(-int64(minHintInterval))
	return h
}

// Hint reports that the server may have been restarted, which the Line would notice
// later. An existing connection is tested at once: the connection ends if the server does
// not answer within half a second. Without a connection, an attempt to connect is made at
// once instead of at the end of a pause. One hint in 5 s is accepted; others have no
// effect.
func (l *Line) Hint() {
	h := l.hints
	now, last := int64(time.Since(h.start)), h.lastTaken.Load()
	if now-last >= int64(minHintInterval) && h.lastTaken.CompareAndSwap(last, now) {
		notify(h.pending)
	}
}

var (
	errHinted = errors.New("oncrpc: the server was reported as restarted")
	errDoubt  = errors.New("oncrpc: the server was reported as restarted, and does not reply")
)

// resetPause ends the pause before the next attempt, and makes the following pauses short
// again.
func (r *reconnector) resetPause() { r.pause, r.nextAttempt = 0, time.Time{} }

// dialUnlessHinted connects and pings until a hint arrives: an attempt started while the
// server was down could wait in vain.
func (r *reconnector) dialUnlessHinted(ctx context.Context) (c *lineConn, hinted bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-r.hints.pending:
			hinted = true
			cancel(errHinted)
		case <-over:
		}
	}()
	c, err = r.dialAndPing(ctx)
	close(over)
	<-ended
	return c, hinted, err
}

// probeAfterHint sends a NULL call, and aborts the connection if the server does not
// reply. If slow calls hold all credits, it cannot send, and the connection stays.
func (o *livenessChecker) probeAfterHint() {
	o.probes.Go(func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), hintTimeout, errDoubt)
		defer cancel()
		heard := o.conn.Received()
		if sent, _ := o.line.sendNull(ctx, o.conn); sent && ctx.Err() != nil && o.conn.Received() == heard {
			o.conn.Abort(errDoubt)
		}
	})
}
