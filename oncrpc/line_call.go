package oncrpc

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// persist continues a call that was lost with a connection, or that found none
// (nil). xid is 0 if the call has no XID yet.
func (l *Line) persist(ctx context.Context, x *Exchange, xid uint32, lost *lineConn) error {
	var spent time.Duration // without a server
	defer func() { l.xids.Release(xid) }()
	for {
		if xid != 0 {
			l.xids.Keep(xid)
		}
		c, err := l.await(ctx, lost, &spent)
		if err != nil {
			return err
		}
		if xid, err = c.Transmit(ctx, x, xid); !errors.Is(err, l.cfg.Closed) {
			return err
		}
		lost = c
	}
}

// await waits for a connection other than the one that the call was lost with,
// and adds the waiting time to spent. For a lost call, that time begins when
// the server was lost.
func (l *Line) await(ctx context.Context, lost *lineConn, spent *time.Duration) (*lineConn, error) {
	began := time.Now()
	if lost != nil {
		select {
		case <-lost.Done():
			began = l.drop(lost)
		case <-ctx.Done():
		}
	}
	defer func() { *spent += time.Since(began) }()
	l.enter()
	defer l.leave()
	var late <-chan time.Time
	if l.cfg.GiveUp > 0 {
		t := time.NewTimer(l.cfg.GiveUp - *spent - time.Since(began))
		defer t.Stop()
		late = t.C
	}
	for {
		c, changed, err := l.present()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil || c != nil:
			return c, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-late:
			return nil, l.unreachable(*spent + time.Since(began))
		}
	}
}

// present returns the connection, and a channel that is closed when the
// connection changes.
func (l *Line) present() (*lineConn, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, fmt.Errorf("oncrpc: line to %s: %w", l.cfg.Server, l.cfg.Closed)
	}
	return l.live.Load(), l.changed, nil
}

// enter counts a call that waits for a connection.
func (l *Line) enter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting++; l.waiting == 1 {
		notify(l.want)
	}
}

// leave removes a waiting call from the count. Attempts to connect end when no
// call waits.
func (l *Line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting--; l.waiting == 0 && l.relax != nil {
		l.relax()
	}
}

// publish lets calls use a connection.
func (l *Line) publish(c *lineConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = c
	l.silent, l.failed = time.Time{}, nil
	l.live.Store(c)
	if !l.closed {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// drop forgets a connection that has ended. It returns when the server was
// lost: when it fell silent, or when the connection ended.
func (l *Line) drop(c *lineConn) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live.CompareAndSwap(c, nil) {
		l.lostBy = c.Cause()
		l.down = time.Now()
		if !l.silent.IsZero() {
			l.down = l.silent
		}
	}
	return l.down
}

// fail notes why an attempt to connect has failed.
func (l *Line) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
}

// unreachable is the error of a call that is given up.
func (l *Line) unreachable(tried time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &UnreachableError{Server: l.cfg.Server, Tried: tried, Lost: l.lostBy, Last: l.failed}
}
