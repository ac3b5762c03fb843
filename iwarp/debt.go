package iwarp

import (
	"os"
	"time"
)

// A debt is what the peer owes: the rest of an FPDU, or the next FPDU of a message.
// It has stallTimeout for either in all, and for an FPDU as long more as that takes at
// slowestPeer: a peer that goes on a little each time must not keep buffers for ever.
// The time runs from the first wait, so that what comes at once costs no clock.
type debt struct {
	owed  bool      // octets are
	fpdu  int       // octets of the FPDU, as far as is known
	since time.Time // the first wait; zero: there was none
}

// left returns for how long one may wait for the peer now, 0 if for ever, or that it
// has taken too long.
func (d *debt) left() (time.Duration, error) {
	if !d.owed {
		return 0, nil
	}
	now := time.Now()
	if d.since.IsZero() {
		d.since = now
	}
	limit := stallTimeout + time.Duration(d.fpdu)*time.Second/slowestPeer
	if left := limit - now.Sub(d.since); left > 0 {
		return left, nil
	}
	return 0, os.ErrDeadlineExceeded
}
