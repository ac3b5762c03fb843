package fusefs

import "time"

// An instant is a time in 8 bytes instead of the 24 of a time.Time: each node
// has several. 0 means none.
type instant time.Duration

// started is the origin of instants, before all of them.
var started = time.Now().Add(-time.Nanosecond)

// at returns t as an instant.
func at(t time.Time) instant { return instant(t.Sub(started)) }

// left returns the time from now until i.
func (i instant) left() time.Duration { return time.Duration(i - at(time.Now())) }
