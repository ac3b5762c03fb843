package client

import (
	"math"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// A backoff is what keeps an object from being asked for.
type backoff struct {
	refused uint64        // the connection on which that is of no use; 0: none
	pause   time.Duration // that came last
	until   time.Duration // not before
}

// postpone has the object not asked for during a pause, longer each time.
func (r *backoff) postpone(now time.Duration) {
	r.pause = min(max(2*r.pause, firstPause), maxPause)
	r.until = now + r.pause
}

// recalled is postpone after a recall. What was held for long enough was worth it.
func (r *backoff) recalled(now, held time.Duration) {
	if held >= worthwhile*r.pause {
		r.pause = 0
	}
	r.postpone(now)
}

// begin tells whether o may be asked for on c now; then it is.
func (o *Object) begin(c *conn) bool {
	now := c.set.cfg.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.forgotten || o.asking || o.dropping > 0 || o.held.Load() != nil || o.refused == c.id || now < o.until || c.full(now) {
		return false
	}
	o.asking = true
	return true
}

// full tells whether nothing is asked for on the connection for now.
func (c *conn) full(now time.Duration) bool { return now < time.Duration(c.quiet.Load()) }

func (c *conn) hush(until time.Duration) { c.quiet.Store(int64(until)) }

// refusal makes of what the server said how soon it is asked again. The caller holds
// o.mu.
func (o *Object) refusal(c *conn, res *delegation.AcquireRes) {
	now := c.set.cfg.Now()
	if res.Status != delegation.StatusRefused {
		o.postpone(now)
		return
	}
	switch res.Reason {
	case delegation.ReasonContended, delegation.ReasonHeld:
		o.postpone(now)
	case delegation.ReasonLimit:
		c.hush(now + fullPause)
	case delegation.ReasonLate:
		c.hush(now + penalty*time.Duration(c.lease.Load()))
	case delegation.ReasonOver:
		c.hush(math.MaxInt64)
	default:
		o.refused = c.id
	}
}
