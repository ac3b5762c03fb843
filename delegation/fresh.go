package delegation

import "time"

// A Stamp distinguishes an object's states. Times are in nanoseconds since
// 1970, by the server's clock.
type Stamp struct {
	Size         uint64
	MTime, CTime int64
}

// Unchanged reports whether data read before a grant may be cached under the
// grant. cached is the Stamp received with the data, and granted is the Stamp
// received with the grant. read is a lower bound for the server's clock when
// the READ call was sent (ServerClock). A second change within the same clock
// tick does not alter ctime, so the call must have been sent after that tick
// (rule c).
func Unchanged(cached, granted Stamp, read int64) bool {
	return cached == granted && read >= granted.CTime+int64(clockStep)
}

// A ServerClock computes a lower bound for the server's clock, from the ctimes
// that the server sends, because clients cannot set ctimes. The zero value is
// ready for use.
type ServerClock struct {
	ctime      int64         // highest seen
	receivedAt time.Duration // when it was received
}

// Saw records a received ctime.
func (c *ServerClock) Saw(ctime int64, now time.Duration) {
	if ctime > c.Reads(now) {
		c.ctime, c.receivedAt = ctime, now
	}
}

// Reads returns a time, in nanoseconds since 1970, that the server's clock has
// reached, or 0 if none is known.
func (c *ServerClock) Reads(now time.Duration) int64 {
	if c.ctime == 0 {
		return 0
	}
	gone := int64(now - c.receivedAt)
	return c.ctime + gone - gone/clockRate
}
