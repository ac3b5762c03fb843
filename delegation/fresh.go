package delegation

import (
	"sync/atomic"
	"time"
)

// Changes count what this client changes of one object, on any connection. The server
// does not recall what a connection holds for changes on that connection: to keep the
// cache right is the client's own affair. The zero value is ready for use.
type Changes struct {
	underWay atomic.Int64
	begun    atomic.Uint64
}

// Begin says that a call is about to be sent that changes the object. What is cached
// of it must not be served any more; until End, nothing that is read is kept.
func (c *Changes) Begin() {
	c.underWay.Add(1)
	c.begun.Add(1)
}

// End says that the reply has come, or that the server will not make the change any
// more.
func (c *Changes) End() { c.underWay.Add(-1) }

// A Mark is taken when a call is sent whose reply may go into the cache.
type Mark struct {
	d     *Delegation
	own   *Changes
	begun uint64
}

// Mark begins to read something of an object, under d, or before anything is held,
// where d is nil. It returns false where what comes must not be cached.
func (h *Holder) Mark(d *Delegation, own *Changes) (Mark, bool) {
	m := Mark{d, own, own.begun.Load()} // before the look at what is under way
	return m, own.underWay.Load() == 0 && (d == nil || h.Valid(d))
}

// Keeps tells whether what has come may be cached: the delegation of m is the same
// still, and nothing has been changed from here (rule c). What was read before
// anything was held must be Unchanged besides.
func (h *Holder) Keeps(m Mark) bool {
	return m.own.begun.Load() == m.begun && (m.d == nil || h.Valid(m.d))
}

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
