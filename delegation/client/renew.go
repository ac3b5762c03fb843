package client

import (
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// arm sets the timer that renews the lease, for as long as a delegation is held
// or asked for.
func (c *conn) arm() {
	due, ok := c.h.RenewDue()
	if !ok {
		return
	}
	now := c.set.cfg.Now()
	due = max(due, now+renewPause)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.armed && c.at <= due {
		return
	}
	c.armed, c.at = true, due
	if c.timer == nil {
		c.timer = time.AfterFunc(due-now, c.renew)
		return
	}
	c.timer.Reset(due - now)
}

// renew runs when the timer fires.
func (c *conn) renew() {
	now := c.set.cfg.Now() // also detects pauses
	c.mu.Lock()
	c.armed = false
	pause := c.set.pauses()
	lapsed := pause != c.pause
	c.pause = pause
	c.mu.Unlock()
	if lapsed {
		c.do(c.h.Lapse())
	}
	c.keep(now)
	c.arm()
}

// keep renews the lease if due.
func (c *conn) keep(now time.Duration) {
	var op delegation.Op
	if c.h.Renew(&op, now) {
		c.forget(op)
	}
}
