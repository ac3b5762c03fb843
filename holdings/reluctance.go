package holdings

import (
	"math"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// A reluctance is what keeps an object from being asked for.
type reluctance struct {
	refused uint64        // the connection on which that is of no use; 0: none
	pause   time.Duration // that came last
	until   time.Duration // not before
}

// postpone has the object not asked for during a pause, longer each time.
func (r *reluctance) postpone(now time.Duration) {
	r.pause = min(max(2*r.pause, firstPause), maxPause)
	r.until = now + r.pause
}

// recalled is postpone after a recall. What was held for long enough was worth it.
func (r *reluctance) recalled(now, held time.Duration) {
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

// refusal makes of what the server said how soon it is asked again.
func (o *Object) refusal(c *conn, res *delegation.AcquireRes) {
	now := c.set.cfg.Now()
	switch {
	case res.Status != delegation.StatusRefused:
	case res.Reason == delegation.ReasonContended || res.Reason == delegation.ReasonHeld:
	case res.Reason == delegation.ReasonLimit:
		c.hush(now + fullPause)
		return
	case res.Reason == delegation.ReasonLate:
		c.hush(now + penalty*c.longest())
		return
	case res.Reason == delegation.ReasonOver:
		c.hush(math.MaxInt64)
		return
	default:
		o.mu.Lock()
		defer o.mu.Unlock()
		o.refused = c.id
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.postpone(now)
}
