package oncrpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A reconnector is the state of the goroutine that maintains a Line's successive
// connections.
//
//	┌─▶ connected ──ended──▶ lost ──a call wants it──▶ dial ──▶ NULL ──┐
//	│   signs of life?                        ▲          │ failed       │
//	│                                         └── pause ◀┘              │
//	└───────────────────────────────────────────────────────────────────┘
//
// A lost connection is replaced only when a call needs a connection: a server that has
// gone, or that closes idle connections, is left alone.
type reconnector struct {
	*Line
	pause        time.Duration // after the last failure
	nextAttempt  time.Time     // earliest time of the next attempt
	outageLogged bool          // the outage was logged
	overdueConns int           // connections aborted because a reply was overdue, since the Line was last idle
}

// run maintains the Line's connections until the Line is closed.
func (l *Line) run(life context.Context, c *lineConn) {
	defer close(l.done)
	r := &reconnector{Line: l}
	for c != nil {
		began, heard := time.Now(), c.Received()
		r.watchConn(life, c)
		l.dropConn(c)
		_ = c.Close()
		if life.Err() != nil {
			return
		}
		r.cfg.Log.Debug("connection lost", "server", l.cfg.Server, "error", c.Cause())
		steady := time.Since(began) >= steadyTime
		if steady || c.Received() > heard { // it served a call
			r.pause = 0
		}
		if !steady {
			r.backOff()
		}
		c = r.replaceConn(life)
	}
}

// backOff delays the next attempt, longer each time.
func (r *reconnector) backOff() {
	r.pause = min(max(2*r.pause, firstPause), r.cfg.MaxPause)
	r.nextAttempt = time.Now().Add(r.pause/2 + rand.N(r.pause/2))
}

// replaceConn makes a connection as soon as a call needs one. It returns nil when
// the Line is closed.
func (r *reconnector) replaceConn(life context.Context) *lineConn {
	for life.Err() == nil {
		dialCtx, end := r.dialContext(life)
		if dialCtx == nil {
			select {
			case <-r.connWanted:
			case <-r.hints.pending:
				r.resetPause()
			case <-life.Done():
			}
			continue
		}
		c := r.dialWithRetries(dialCtx)
		end()
		if c != nil {
			return c
		}
	}
	return nil
}

// dialContext returns a context that lasts as long as calls need a connection, or nil if
// no call does.
func (r *reconnector) dialContext(life context.Context) (ctx context.Context, end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiters == 0 && !r.cfg.Eager {
		return nil, nil
	}
	ctx, cancel := context.WithCancelCause(life)
	r.cancelDial = func() { cancel(errUnwanted) }
	return ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cancelDial = nil
		cancel(nil)
	}
}

// dialWithRetries tries to connect until that succeeds or ctx ends.
func (r *reconnector) dialWithRetries(ctx context.Context) *lineConn {
	began := time.Now()
	for {
		wait := time.NewTimer(time.Until(r.nextAttempt))
		select {
		case <-wait.C:
		case <-r.hints.pending:
			r.resetPause()
		case <-ctx.Done():
		}
		wait.Stop()
		if ctx.Err() != nil {
			return nil
		}
		c, hinted, err := r.dialUnlessHinted(ctx)
		if err == nil {
			r.publishConn(c)
			r.logRecovery()
			return c
		}
		if ctx.Err() != nil {
			return nil
		}
		r.recordDialError(err)
		if hinted {
			r.resetPause()
			continue
		}
		r.backOff()
		if time.Since(began) >= outageLogDelay {
			r.logUnresponsive(err)
		}
	}
}

// dialAndPing connects and makes a NULL call. Any reply shows that the server is there.
// Over RDMA the reply also grants credits for more than one call at a time (RFC 8166,
// Section 3.3.3); the first real call might take long.
func (r *reconnector) dialAndPing(ctx context.Context) (*lineConn, error) {
	dialing, cancel := context.WithTimeout(ctx, min(dialTime, r.cfg.Silence))
	defer cancel()
	made, err := r.cfg.Dial(dialing, r.Line)
	if err != nil {
		return nil, err
	}
	c := &lineConn{made}
	limit := r.cfg.Silence
	if r.cfg.Doubt != nil { // another server may serve
		limit = min(limit, dialTime)
	}
	asking, cancel := context.WithTimeoutCause(ctx, limit, r.silenceError())
	defer cancel()
	if _, err := r.sendNull(asking, c); c.Received() == 0 {
		c.Abort(err) // a silent server would not complete a graceful close either
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// sendNull sends a NULL call, the procedure 0 that every program has (RFC 5531,
// Section 12.1). It reports whether the call was sent; without a credit it is
// not.
func (l *Line) sendNull(ctx context.Context, c *lineConn) (sent bool, err error) {
	p := l.program.Load()
	x := Exchange{Prog: uint32(p >> 32), Vers: uint32(p)}
	xid, err := c.Transmit(ctx, &x, 0)
	if err == nil {
		x.Release()
	}
	return xid != 0, err
}

// silenceError returns the cause for aborting a silent connection.
func (l *Line) silenceError() error { return fmt.Errorf("%w for %v", ErrSilent, l.cfg.Silence) }

// logUnresponsive logs, once, that the server does not respond.
func (r *reconnector) logUnresponsive(err error) {
	if r.outageLogged {
		return
	}
	r.outageLogged = true
	if r.cfg.GiveUp > 0 {
		r.cfg.Log.Warn("server not responding", "server", r.cfg.Server, "err", err)
		return
	}
	r.cfg.Log.Warn("server not responding, still trying", "server", r.cfg.Server, "err", err)
}

// logRecovery logs that the server is back, if its outage was logged.
func (r *reconnector) logRecovery() {
	if r.outageLogged {
		r.outageLogged = false
		r.cfg.Log.Info("server OK", "server", r.cfg.Server)
	}
}

// Line errors.
var (
	// ErrUnreachable is wrapped by a call's error if there was no server for longer than
	// LineConfig.GiveUp.
	ErrUnreachable = errors.New("oncrpc: server unreachable")

	// ErrSilent is the cause for aborting a connection whose server gives no sign of
	// life.
	ErrSilent = errors.New("oncrpc: no sign of life")

	// ErrOverdue is the cause for aborting a connection whose server replies to some
	// calls, but not all.
	ErrOverdue = errors.New("oncrpc: the server does not reply to a call")

	// errUnwanted is the cause for cancelling an attempt to connect.
	errUnwanted = errors.New("oncrpc: no call waits for a connection")
)

// An UnreachableError reports that a call was given up. It wraps ErrUnreachable
// and both causes. A cause may be the timeout of an attempt to connect, which
// says nothing about the caller's own context.
type UnreachableError struct {
	Server string        // host and port
	Tried  time.Duration // time that the call had no server
	Lost   error         // why the connection was lost
	Last   error         // why the last attempt to replace it failed; nil: no attempt was made
}

// Error names the server, the time and the last cause.
func (e *UnreachableError) Error() string {
	cause := e.Last
	if cause == nil {
		cause = e.Lost
	}
	return fmt.Sprintf("oncrpc: server %s unreachable for %v: %v", e.Server, e.Tried.Round(time.Millisecond), cause)
}

// Unwrap returns ErrUnreachable and the causes.
func (e *UnreachableError) Unwrap() []error {
	errs := []error{ErrUnreachable, e.Lost}
	if e.Last != nil {
		errs = append(errs, e.Last)
	}
	return errs
}
