package tenure

import (
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrOver reports that an operation was not performed because the tenure is over.
var ErrOver = errors.New("the time until which this host may serve is over")

// A Tenure is the time until which this process may serve. A nil *Tenure, and the zero Tenure,
// never end. Its methods are safe for concurrent use.
type Tenure struct {
	word  *int64 // CLOCK_BOOTTIME in nanoseconds; accessed atomically
	clock bootClock
}

// New returns the Tenure whose end is in word, in nanoseconds of CLOCK_BOOTTIME. The word must only
// be accessed atomically.
func New(word *int64) *Tenure { return &Tenure{word: word} }

// ended is the word of a tenure that Extend does not prolong.
const ended = 1

// Over reports whether the tenure has ended.
func (t *Tenure) Over() bool {
	if t == nil || t.word == nil {
		return false
	}
	until := atomic.LoadInt64(t.word) // first: the clock is read after a pause in between
	return t.clock.now() >= until
}

// Check returns ErrOver if the tenure has ended.
func (t *Tenure) Check() error {
	if t.Over() {
		return ErrOver
	}
	return nil
}

// Left returns the time until the end, or 0 after it. Without an end, it returns a negative time.
func (t *Tenure) Left() time.Duration {
	if t == nil || t.word == nil {
		return -1
	}
	return max(0, time.Duration(atomic.LoadInt64(t.word)-t.clock.now()))
}

// Extend moves the end to until, in nanoseconds of CLOCK_BOOTTIME, unless the end is later or the
// tenure is over: a tenure that has ended never begins again. It reports whether the tenure is not
// over.
func (t *Tenure) Extend(until int64) bool {
	for {
		old := atomic.LoadInt64(t.word)
		now := t.clock.now()
		if now >= old {
			return false
		}
		if until <= old || atomic.CompareAndSwapInt64(t.word, old, until) {
			return now < max(old, until)
		}
	}
}

// End ends the tenure.
func (t *Tenure) End() {
	if t != nil && t.word != nil {
		atomic.StoreInt64(t.word, ended)
	}
}

// Now returns CLOCK_BOOTTIME in nanoseconds.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // every kernel since 2.6.39 has this clock
	}
	return ts.Nano()
}
