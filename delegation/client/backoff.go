package client

import (
	"math"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// A backoff limits how often the client asks for an object.
type backoff struct {
	refused uint64        // id of the connection whose server refuses the object for good; 0: none
	pause   time.Duration // the latest pause
	until   time.Duration // end of the pause
}

// postpone begins a pause in which the client does not ask for the object. Each
// pause is twice as long as the previous pause, up to maxPause.
func (r *backoff) postpone(now time.Duration) {
	r.pause = min(max(2*r.pause, firstPause), maxPause)
	r.until = now + r.pause
}

// recalled is postpone after a recall. A delegation held for long enough was
// worth its ACQUIRE, and resets the pause.
func (r *backoff) recalled(now, held time.Duration) {
	if held >= worthwhile*r.pause {
		r.pause = 0
	}
	r.postpone(now)
}

// begin reports whether the client may ask for o on c now. If so, begin marks o
// as being asked for.
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

// full reports whether the client must not ask for anything on the connection
// at present.
func (c *conn) full(now time.Duration) bool { return now < time.Duration(c.quiet.Load()) }

func (c *conn) hush(until time.Duration) { c.quiet.Store(int64(until)) }

// refusal derives from the server's refusal how soon the client may ask again.
// The caller holds o.mu.
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
