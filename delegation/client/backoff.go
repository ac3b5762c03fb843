package client

import (
	"math"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// An acquireBackoff limits how often the client tries to acquire an object.
type acquireBackoff struct {
	refusedConn uint64        // id of the connection whose server refuses the object permanently; 0: none
	lastPause   time.Duration // length of the latest pause
	pauseEnd    time.Duration // end of the latest pause
}

// startPause starts a pause in which the client does not acquire the object.
// Each pause is twice as long as the previous one, up to maxPause.
func (r *acquireBackoff) startPause(now time.Duration) {
	r.lastPause = min(max(2*r.lastPause, firstPause), maxPause)
	r.pauseEnd = now + r.lastPause
}

// pauseAfterRecall starts a pause after a recall. A delegation that was held
// long enough was worth its ACQUIRE, and resets the pause.
func (r *acquireBackoff) pauseAfterRecall(now, held time.Duration) {
	if held >= worthwhilePauses*r.lastPause {
		r.lastPause = 0
	}
	r.startPause(now)
}

// beginAcquire reports whether the client may acquire o on c now. If so, it
// marks o as being acquired.
func (o *Object) beginAcquire(c *conn) bool {
	now := c.set.cfg.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.forgotten || o.acquiring || o.pendingDrops > 0 || o.held.Load() != nil || o.refusedConn == c.id || now < o.pauseEnd || c.isPaused(now) {
		return false
	}
	o.acquiring = true
	return true
}

// isPaused reports whether the client must not send an ACQUIRE on the
// connection now.
func (c *conn) isPaused(now time.Duration) bool { return now < time.Duration(c.pausedUntil.Load()) }

func (c *conn) pauseUntil(until time.Duration) { c.pausedUntil.Store(int64(until)) }

// handleRefusal sets the pause that follows from the server's Reason. The
// caller must hold o.mu.
func (o *Object) handleRefusal(c *conn, res *delegation.AcquireRes) {
	now := c.set.cfg.Now()
	if res.Status != delegation.StatusRefused {
		o.startPause(now)
		return
	}
	switch res.Reason {
	case delegation.ReasonContended, delegation.ReasonHeld:
		o.startPause(now)
	case delegation.ReasonLimit:
		c.pauseUntil(now + limitPause)
	case delegation.ReasonLate:
		c.pauseUntil(now + penaltyLeases*time.Duration(c.lease.Load()))
	case delegation.ReasonOver:
		c.pauseUntil(math.MaxInt64)
	default:
		o.refusedConn = c.id
	}
}
