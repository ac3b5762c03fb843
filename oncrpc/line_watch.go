package oncrpc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A livenessChecker checks for signs of life on one connection while calls are in
// flight: a message, or bytes that move. A call may legitimately take long, as a COMMIT
// to a slow disk does. It therefore sends a NULL call before it aborts a connection.
//
//	call ──── quiet ────▶ NULL ──── quiet ────▶ the end
//	       half the limit        half the limit
//
// A reply may also be lost although the server is alive: a server drops a retransmitted
// call while it still executes the first (Linux's does), and sends the reply over the old
// connection. Only another retransmission then obtains the reply. The checker therefore
// also aborts a connection if a single reply is overdue.
//
// Each call updates two atomic words for this; the checks stop while there are no calls.
type livenessChecker struct {
	line *Line
	conn *lineConn

	lastReceived    uint64 // messages received up to the last sign of life
	lastIn, lastOut uint64 // bytes up to then
	lastProgress    time.Time
	quietChecks     int // checks since then; a stopped process runs none
	overdueLimit    int // checks after which a reply is overdue

	probing atomic.Bool
	probes  sync.WaitGroup
}

// watchConn monitors a connection until it has ended, or the Line is closed.
func (r *reconnector) watchConn(life context.Context, c *lineConn) {
	o := &livenessChecker{line: r.Line, conn: c, lastProgress: time.Now(), overdueLimit: r.overdueChecks()}
	defer o.probes.Wait()
	began := o.lastProgress
	tick := time.NewTicker(r.cfg.Silence / checksPerSilence)
	defer tick.Stop()
	doubt := newDoubter(r.Line, c)
	defer doubt.close()
	resting := false
	for {
		select {
		case <-c.Done():
			return
		case <-life.Done():
			r.closeConn(c)
			return
		case <-r.callStarted:
			if resting {
				resting = false
				o.lastProgress, o.quietChecks = time.Now(), 0
				tick.Reset(r.cfg.Silence / checksPerSilence)
				doubt.resume()
			}
		case <-r.hints.pending:
			o.probeAfterHint()
		case <-doubt.ticks():
			doubt.check()
		case <-tick.C:
			switch o.checkLiveness() {
			case connIdle:
				resting = true
				tick.Stop()
				doubt.pause()
				r.overdueConns = 0
				o.overdueLimit = r.overdueChecks()
			case connSilent:
				r.logUnresponsive(r.silenceError())
				c.Abort(r.silenceError())
			case connOverdue:
				if time.Since(began) > 2*r.cfg.Silence/checksPerSilence*time.Duration(o.overdueLimit) {
					r.overdueConns = 0 // in between, all replies arrived in time
				}
				r.overdueConns++
				r.cfg.Log.Warn("the server replies to some calls, but not all: retransmitting the others over a new connection", "server", r.cfg.Server)
				c.Abort(ErrOverdue)
			}
		}
	}
}

// closeConn closes a closed Line's connection, gracefully if the server is responsive.
func (l *Line) closeConn(c *lineConn) {
	if !l.Up() {
		c.Abort(l.cfg.Closed)
	}
	_ = c.Close()
}

// A checkResult is the result of a check.
type checkResult int

const (
	connHealthy checkResult = iota // or quiet, but not for too long
	connIdle                       // no call is in flight
	connSilent
	connOverdue // a reply is overdue
)

// overdueChecks returns the number of checks after which a reply is overdue.
func (r *reconnector) overdueChecks() int {
	limit := min(overdueTime<<min(r.overdueConns, 8), maxOverdue)
	return int(max(limit, 2*r.cfg.Silence) / (r.cfg.Silence / checksPerSilence))
}

// checkLiveness checks for signs of life.
func (o *livenessChecker) checkLiveness() checkResult {
	l := o.line
	if o.hasProgress() {
		o.lastProgress, o.quietChecks = time.Now(), 0
		l.setSilent(time.Time{})
	} else {
		o.quietChecks++
	}
	asking := o.probing.Load()
	longest := o.conn.CheckOverdue()
	switch {
	case l.inFlight.Load() == 0 && !asking:
		return o.stopChecks()
	case longest >= o.overdueLimit:
		return connOverdue
	case o.quietChecks >= checksPerSilence:
		l.setSilent(o.lastProgress)
		return connSilent
	case o.quietChecks > checksPerSilence/2 && asking:
		l.setSilent(o.lastProgress)
	case o.quietChecks >= checksPerSilence/2 && !asking:
		o.probing.Store(true)
		o.probes.Go(func() {
			defer o.probing.Store(false)
			_, _ = l.sendNull(context.Background(), o.conn) // the next check sees the result
		})
	}
	return connHealthy
}

// hasProgress reports whether the server has given a new sign of life.
func (o *livenessChecker) hasProgress() bool {
	heard := o.conn.Received()
	in, out := o.conn.Traffic()
	// The kernel's acknowledgments do not prove that the server itself works.
	if heard == o.lastReceived && in == o.lastIn && out < o.lastOut+minProgressBytes {
		return false
	}
	o.lastReceived, o.lastIn, o.lastOut = heard, in, out
	return true
}

// stopChecks stops the checks, unless a call started in the meantime and saw watched
// still set.
func (o *livenessChecker) stopChecks() checkResult {
	l := o.line
	l.watched.Store(false)
	if l.inFlight.Load() > 0 && l.watched.CompareAndSwap(false, true) {
		return connHealthy
	}
	return connIdle
}

func (l *Line) setSilent(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silentSince = since
}
