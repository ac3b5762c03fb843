package oncrpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A reconnection is the state of the goroutine that runs a Line's successive
// connections.
//
//	┌─▶ connected ──ended──▶ lost ──a call wants it──▶ dial ──▶ NULL ──┐
//	│   signs of life?                        ▲          │ failed       │
//	│                                         └── pause ◀┘              │
//	└───────────────────────────────────────────────────────────────────┘
//
// A lost connection is replaced only when a call wants a connection: a server
// that has gone, or that closes idle connections, is left alone.
type reconnection struct {
	*Line
	pause      time.Duration // after the last failure
	next       time.Time     // earliest time of the next attempt
	complained bool          // the log has a complaint about the server
	overdue    int           // connections that ended because a reply was overdue, since calls last were under way
}

// run runs a Line's connections until the Line is closed.
func (l *Line) run(life context.Context, c *lineConn) {
	defer close(l.over)
	r := &reconnection{Line: l}
	for c != nil {
		began, heard := time.Now(), c.Received()
		r.attend(life, c)
		l.drop(c)
		_ = c.Close()
		if life.Err() != nil {
			return
		}
		r.cfg.Log.Debug("connection lost", "server", l.cfg.Server, "error", c.Cause())
		steady := time.Since(began) >= steadyTime
		if steady || c.Received() > heard { // it was of use
			r.pause = 0
		}
		if !steady {
			r.backOff()
		}
		c = r.replace(life)
	}
}

// backOff delays the next attempt, longer each time.
func (r *reconnection) backOff() {
	r.pause = min(max(2*r.pause, firstPause), maxPause)
	r.next = time.Now().Add(r.pause/2 + rand.N(r.pause/2))
}

// replace makes a connection as soon as a call wants one. It returns nil when
// the Line is closed.
func (r *reconnection) replace(life context.Context) *lineConn {
	for life.Err() == nil {
		effort, end := r.effort(life)
		if effort == nil {
			select {
			case <-r.want:
			case <-r.hints.c:
				r.hurry()
			case <-life.Done():
			}
			continue
		}
		c := r.insist(effort)
		end()
		if c != nil {
			return c
		}
	}
	return nil
}

// effort returns a context that lasts as long as calls want a connection, or
// nil if no call does.
func (r *reconnection) effort(life context.Context) (ctx context.Context, end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == 0 && !r.cfg.Eager {
		return nil, nil
	}
	ctx, cancel := context.WithCancelCause(life)
	r.relax = func() { cancel(errUnwanted) }
	return ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.relax = nil
		cancel(nil)
	}
}

// insist tries to connect until that succeeds or ctx ends.
func (r *reconnection) insist(ctx context.Context) *lineConn {
	began := time.Now()
	for {
		wait := time.NewTimer(time.Until(r.next))
		select {
		case <-wait.C:
		case <-r.hints.c:
			r.hurry()
		case <-ctx.Done():
		}
		wait.Stop()
		if ctx.Err() != nil {
			return nil
		}
		c, hinted, err := r.attemptUnlessHinted(ctx)
		if err == nil {
			r.publish(c)
			r.relieved()
			return c
		}
		if ctx.Err() != nil {
			return nil
		}
		r.fail(err)
		if hinted {
			r.hurry()
			continue
		}
		r.backOff()
		if time.Since(began) >= complainTime {
			r.complain(err)
		}
	}
}

// attempt connects and makes a NULL call. Any reply shows that the server is
// there. Over RDMA it also grants credits for more than one call at a time (RFC
// 8166, Section 3.3.3); the first real call might take long.
func (r *reconnection) attempt(ctx context.Context) (*lineConn, error) {
	dialing, cancel := context.WithTimeout(ctx, min(dialTime, r.cfg.Silence))
	defer cancel()
	made, err := r.cfg.Dial(dialing, r.Line)
	if err != nil {
		return nil, err
	}
	c := &lineConn{made}
	asking, cancel := context.WithTimeoutCause(ctx, r.cfg.Silence, r.silence())
	defer cancel()
	if _, err := r.ask(asking, c); c.Received() == 0 {
		c.Abort(err) // a silent server would not answer a graceful close either
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// ask makes a NULL call: the procedure 0 that every program has (RFC 5531,
// Section 12.1). It reports whether the call was sent; without a credit it is
// not.
func (l *Line) ask(ctx context.Context, c *lineConn) (sent bool, err error) {
	p := l.program.Load()
	x := Exchange{Prog: uint32(p >> 32), Vers: uint32(p)}
	xid, err := c.Transmit(ctx, &x, 0)
	if err == nil {
		x.Release()
	}
	return xid != 0, err
}

// silence returns the cause of ending a connection because of silence.
func (l *Line) silence() error { return fmt.Errorf("%w for %v", ErrSilent, l.cfg.Silence) }

// complain logs, once, that the server is away; relieved logs that the server
// is back.
func (r *reconnection) complain(err error) {
	if r.complained {
		return
	}
	r.complained = true
	if r.cfg.GiveUp > 0 {
		r.cfg.Log.Warn("server not responding", "server", r.cfg.Server, "err", err)
		return
	}
	r.cfg.Log.Warn("server not responding, still trying", "server", r.cfg.Server, "err", err)
}

func (r *reconnection) relieved() {
	if r.complained {
		r.complained = false
		r.cfg.Log.Info("server OK", "server", r.cfg.Server)
	}
}

// Errors of a Line.
var (
	// ErrUnreachable is wrapped by the error of a call that had no server
	// for longer than LineConfig.GiveUp.
	ErrUnreachable = errors.New("oncrpc: server unreachable")

	// ErrSilent is the cause of ending a connection whose server gives no sign
	// of life.
	ErrSilent = errors.New("oncrpc: no sign of life")

	// ErrOverdue is the cause of ending a connection whose server answers some
	// calls, but not all.
	ErrOverdue = errors.New("oncrpc: the server does not answer a call")

	// errUnwanted is the cause of ending an attempt to connect.
	errUnwanted = errors.New("oncrpc: no call waits for a connection")
)

// An UnreachableError reports that a call was given up. It wraps ErrUnreachable
// and both causes. A cause may be the timeout of an attempt to connect, which
// says nothing about the caller's own context.
type UnreachableError struct {
	Server string        // host and port
	Tried  time.Duration // how long the call had no server
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
