package fusefs

import "time"

// An instant is a time, in 8 bytes where a time.Time has 24: each node has some. 0 is
// none.
type instant time.Duration

// started is where instants begin, before all others.
var started = time.Now().Add(-time.Nanosecond)

// at returns t as an instant.
func at(t time.Time) instant { return instant(t.Sub(started)) }

// left returns how long it is until i.
func (i instant) left() time.Duration { return time.Duration(i - at(time.Now())) }
