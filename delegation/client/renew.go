package client

import (
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// arm sees to it that the lease is renewed, for as long as anything is held or asked
// for.
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

// renew is what the timer does.
func (c *conn) renew() {
	now := c.set.cfg.Now() // which looks for pauses
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

// keep renews the lease if it is time.
func (c *conn) keep(now time.Duration) {
	var op delegation.Op
	if c.h.Renew(&op, now) {
		c.forget(op)
	}
}
