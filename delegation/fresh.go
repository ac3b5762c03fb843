package delegation

import "time"

// A Stamp is what tells one state of an object from another. Times are in
// nanoseconds since 1970, of the server's clock.
type Stamp struct {
	Size         uint64
	MTime, CTime int64
}

// Unchanged tells whether what was read before a grant may be cached under it:
// cached is what was said of the object with what was read, granted what came with
// the grant, and read what the server's clock showed at least when the call was
// sent (ServerClock). A change in the tick of the clock that ctime is from would
// not show in it, so the call must have been sent after that (rule c).
func Unchanged(cached, granted Stamp, read int64) bool {
	return cached == granted && read >= granted.CTime+int64(clockStep)
}

// A ServerClock tells what a server's clock shows at least. It learns from the
// ctimes that the server sends, which nobody can set. The zero value has learnt
// nothing.
type ServerClock struct {
	ctime int64         // seen
	at    time.Duration // when
}

// Saw takes a ctime that has come in.
func (c *ServerClock) Saw(ctime int64, now time.Duration) {
	if ctime > c.Reads(now) {
		c.ctime, c.at = ctime, now
	}
}

// Reads returns a time, in nanoseconds since 1970, that the server's clock has
// reached; 0 where nothing is known of it.
func (c *ServerClock) Reads(now time.Duration) int64 {
	if c.ctime == 0 {
		return 0
	}
	gone := int64(now - c.at)
	return c.ctime + gone - gone/clockRate
}
