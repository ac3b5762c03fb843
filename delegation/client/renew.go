package client

import (
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// armTimer sets the timer that renews the lease, while a delegation is held or
// being acquired.
func (c *conn) armTimer() {
	due, ok := c.holder.RenewDue()
	if !ok {
		return
	}
	now := c.set.cfg.Now()
	due = max(due, now+renewPause)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.timerRuns && c.timerDue <= due {
		return
	}
	c.timerRuns, c.timerDue = true, due
	if c.timer == nil {
		c.timer = time.AfterFunc(due-now, c.handleTimer)
		return
	}
	c.timer.Reset(due - now)
}

// handleTimer renews the lease when the timer fires, and drops all delegations
// after a pause of the machine.
func (c *conn) handleTimer() {
	now := c.set.cfg.Now() // also detects pauses
	c.mu.Lock()
	c.timerRuns = false
	pause := c.set.pauses()
	paused := pause != c.pauseCount
	c.pauseCount = pause
	c.mu.Unlock()
	if paused {
		c.applyPosts(c.holder.Lapse())
	}
	c.renewLease(now)
	c.armTimer()
}

// renewLease renews the lease if it is due.
func (c *conn) renewLease(now time.Duration) {
	var op delegation.Op
	if c.holder.Renew(&op, now) {
		c.postUnawaited(op)
	}
}
