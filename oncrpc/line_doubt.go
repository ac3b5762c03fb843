package oncrpc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A doubter calls LineConfig.Doubt while calls are in flight on a connection whose server
// sends nothing. A nil *doubter has no Doubt to call.
type doubter struct {
	line   *Line
	conn   *lineConn
	ticker *time.Ticker

	waits    bool   // calls were in flight at the last check
	received uint64 // messages received until then
	in       uint64 // bytes until then

	calling atomic.Bool // Doubt is being called
	calls   sync.WaitGroup
}

// newDoubter returns a doubter that checks, or nil if there is no LineConfig.Doubt.
func newDoubter(l *Line, c *lineConn) *doubter {
	if l.cfg.Doubt == nil {
		return nil
	}
	return &doubter{line: l, conn: c, ticker: time.NewTicker(doubtInterval)}
}

// ticks returns when to check: never, for a nil doubter.
func (d *doubter) ticks() <-chan time.Time {
	if d == nil {
		return nil
	}
	return d.ticker.C
}

// pause stops the checks until resume is called.
func (d *doubter) pause() {
	if d != nil {
		d.ticker.Stop()
	}
}

func (d *doubter) resume() {
	if d != nil {
		d.waits = false
		d.ticker.Reset(doubtInterval)
	}
}

// close stops the checks, and waits until Doubt has returned. The connection must have
// ended.
func (d *doubter) close() {
	if d != nil {
		d.ticker.Stop()
		d.calls.Wait()
	}
}

// check calls Doubt if the server has sent nothing since the last check although calls were
// in flight all the time.
func (d *doubter) check() {
	received, waits := d.conn.Received(), d.line.inFlight.Load() > 0
	in, _ := d.conn.Traffic()
	silent := waits && d.waits && received == d.received && in == d.in
	d.waits, d.received, d.in = waits, received, in
	if silent && d.calling.CompareAndSwap(false, true) {
		d.calls.Go(func() {
			defer d.calling.Store(false)
			d.callDoubt()
		})
	}
}

func (d *doubter) callDoubt() {
	ctx, cancel := context.WithTimeout(context.Background(), doubtTime)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-d.conn.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	d.line.cfg.Doubt(ctx)
	cancel()
	<-ended
}
