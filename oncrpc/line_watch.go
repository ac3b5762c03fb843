package oncrpc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// An observer checks for signs of life on one connection while calls are under
// way: a message, or bytes that move. A call may legitimately take long, as a
// COMMIT to a slow disk does. The observer therefore makes a NULL call before
// it ends a connection.
//
//	call ──── quiet ────▶ NULL ──── quiet ────▶ the end
//	       half the limit        half the limit
//
// A reply may also be lost although the server lives: a server drops a call that
// was sent again while it still executes the first (Linux's does), and sends
// the reply over the connection that has ended. Nothing but sending the call
// again brings the reply then. The observer therefore ends a connection also if
// a single reply is overdue.
//
// Each call pays for this with two atomic words; the observer rests while there
// are no calls.
type observer struct {
	line *Line
	conn *lineConn

	heard   uint64 // messages up to the last sign of life
	in, out uint64 // bytes up to then
	since   time.Time
	quiet   int // checks since then; a stopped process makes none
	overdue int // checks after which a reply is overdue

	asking atomic.Bool
	asked  sync.WaitGroup
}

// attend watches a connection until it has ended, or the Line is closed.
func (r *reconnection) attend(life context.Context, c *lineConn) {
	o := &observer{line: r.Line, conn: c, since: time.Now(), overdue: r.overdueChecks()}
	defer o.asked.Wait()
	began := o.since
	tick := time.NewTicker(r.cfg.Silence / looks)
	defer tick.Stop()
	resting := false
	for {
		select {
		case <-c.Done():
			return
		case <-life.Done():
			r.part(c)
			return
		case <-r.busy:
			if resting {
				resting = false
				o.since, o.quiet = time.Now(), 0
				tick.Reset(r.cfg.Silence / looks)
			}
		case <-r.hints.c:
			o.doubt()
		case <-tick.C:
			switch o.check() {
			case idle:
				resting = true
				tick.Stop()
				r.overdue = 0
				o.overdue = r.overdueChecks()
			case dead:
				r.complain(r.silence())
				c.Abort(r.silence())
			case owing:
				if time.Since(began) > 2*r.cfg.Silence/looks*time.Duration(o.overdue) {
					r.overdue = 0 // in between, all calls were answered in time
				}
				r.overdue++
				r.cfg.Log.Warn("the server answers some calls, but not all: sending these again over another connection", "server", r.cfg.Server)
				c.Abort(ErrOverdue)
			}
		}
	}
}

// part ends the connection of a closed Line, in good order if the server is
// well.
func (l *Line) part(c *lineConn) {
	if !l.Up() {
		c.Abort(l.cfg.Closed)
	}
	_ = c.Close()
}

// A finding is the result of a check.
type finding int

const (
	fine finding = iota // or quiet, but not for too long
	idle                // nothing is under way
	dead
	owing // a reply is overdue
)

// overdueChecks returns after how many checks a reply is overdue.
func (r *reconnection) overdueChecks() int {
	limit := min(overdueTime<<min(r.overdue, 8), maxOverdue)
	return int(max(limit, 2*r.cfg.Silence) / (r.cfg.Silence / looks))
}

// check checks for signs of life.
func (o *observer) check() finding {
	l := o.line
	if o.alive() {
		o.since, o.quiet = time.Now(), 0
		l.setSilent(time.Time{})
	} else {
		o.quiet++
	}
	asking := o.asking.Load()
	longest := o.conn.CheckOverdue()
	switch {
	case l.calls.Load() == 0 && !asking:
		return o.rest()
	case longest >= o.overdue:
		return owing
	case o.quiet >= looks:
		l.setSilent(o.since)
		return dead
	case o.quiet > looks/2 && asking:
		l.setSilent(o.since)
	case o.quiet >= looks/2 && !asking:
		o.asking.Store(true)
		o.asked.Go(func() {
			defer o.asking.Store(false)
			_, _ = l.ask(context.Background(), o.conn) // the next check notices the result
		})
	}
	return fine
}

// alive reports whether the server gave a sign of life since the last one.
func (o *observer) alive() bool {
	heard := o.conn.Received()
	in, out := o.conn.Traffic()
	// An acknowledgment by the server's kernel does not prove that the server
	// works.
	if heard == o.heard && in == o.in && out < o.out+bulk {
		return false
	}
	o.heard, o.in, o.out = heard, in, out
	return true
}

// rest ends the checks, unless a call began meanwhile that saw watched still
// set.
func (o *observer) rest() finding {
	l := o.line
	l.watched.Store(false)
	if l.calls.Load() > 0 && l.watched.CompareAndSwap(false, true) {
		return fine
	}
	return idle
}

func (l *Line) setSilent(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = since
}
