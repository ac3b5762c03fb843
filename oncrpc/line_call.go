package oncrpc

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// retryCall retries a call that was lost with a connection, or waits for one if there was
// none (nil). xid is 0 if the call has no XID yet.
func (l *Line) retryCall(ctx context.Context, x *Exchange, xid uint32, lost *lineConn) error {
	var spent time.Duration // without a server
	defer func() { l.xids.Release(xid) }()
	for {
		if xid != 0 {
			l.xids.Keep(xid)
		}
		c, err := l.awaitConn(ctx, lost, &spent)
		if err != nil {
			return err
		}
		if xid, err = c.Transmit(ctx, x, xid); !errors.Is(err, l.cfg.Closed) {
			return err
		}
		lost = c
	}
}

// awaitConn waits for a connection other than lost, and adds the waiting time to spent.
// For a lost call, that time begins when the server was lost.
func (l *Line) awaitConn(ctx context.Context, lost *lineConn, spent *time.Duration) (*lineConn, error) {
	began := time.Now()
	if lost != nil {
		select {
		case <-lost.Done():
			began = l.dropConn(lost)
		case <-ctx.Done():
		}
	}
	defer func() { *spent += time.Since(began) }()
	l.addWaiter()
	defer l.removeWaiter()
	var giveUp <-chan time.Time
	if l.cfg.GiveUp > 0 {
		t := time.NewTimer(l.cfg.GiveUp - *spent - time.Since(began))
		defer t.Stop()
		giveUp = t.C
	}
	for {
		c, changed, err := l.currentConn()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil || c != nil:
			return c, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-giveUp:
			return nil, l.unreachableError(*spent + time.Since(began))
		}
	}
}

// currentConn returns the connection, and a channel that is closed when the
// connection changes.
func (l *Line) currentConn() (*lineConn, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, fmt.Errorf("oncrpc: line to %s: %w", l.cfg.Server, l.cfg.Closed)
	}
	return l.current.Load(), l.changed, nil
}

// addWaiter counts a call that waits for a connection.
func (l *Line) addWaiter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiters++; l.waiters == 1 {
		notify(l.connWanted)
	}
}

// removeWaiter removes a waiting call from the count. Attempts to connect end when no
// call waits.
func (l *Line) removeWaiter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiters--; l.waiters == 0 && l.cancelDial != nil {
		l.cancelDial()
	}
}

// publishConn lets calls use a connection.
func (l *Line) publishConn(c *lineConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastConn = c
	l.silentSince, l.dialErr = time.Time{}, nil
	l.current.Store(c)
	if !l.closed {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// dropConn removes a connection that has ended. It returns the time when the server was
// lost: when it fell silent, or when the connection ended.
func (l *Line) dropConn(c *lineConn) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current.CompareAndSwap(c, nil) {
		l.lostCause = c.Cause()
		l.downSince = time.Now()
		if !l.silentSince.IsZero() {
			l.downSince = l.silentSince
		}
	}
	return l.downSince
}

// recordDialError records why an attempt to connect failed.
func (l *Line) recordDialError(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dialErr = err
}

// unreachableError returns the error of a call that is given up after the time tried.
func (l *Line) unreachableError(tried time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &UnreachableError{Server: l.cfg.Server, Tried: tried, Lost: l.lostCause, Last: l.dialErr}
}
