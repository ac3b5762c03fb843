package fusefs

import (
	"sync/atomic"
	"time"
)

// A deadline is an instant, rounded down to deadlineUnit so that it fits in 4
// bytes.
type deadline struct{ units atomic.Uint32 }

// deadlineUnit is the unit of a deadline: 32 bits then last for eight years.
const deadlineUnit = instant(time.Second / 16)

// set sets d to a time from now.
func (d *deadline) set(life time.Duration) {
	d.units.Store(uint32((instantOf(time.Now()) + instant(life)) / deadlineUnit))
}

// clear sets d to the past.
func (d *deadline) clear() { d.units.Store(0) }

// isFuture reports whether d is in the future.
func (d *deadline) isFuture() bool {
	return instant(d.units.Load())*deadlineUnit > instantOf(time.Now())
}
