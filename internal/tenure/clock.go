package tenure

import (
	"sync/atomic"
	"time"
)

// A bootClock reads CLOCK_BOOTTIME without a system call. time.Now reads CLOCK_REALTIME and
// CLOCK_MONOTONIC through the vDSO. A suspend adds the same time to CLOCK_REALTIME and to
// CLOCK_BOOTTIME, in one step, and none to CLOCK_MONOTONIC. While the difference of the first two
// is what it was, CLOCK_BOOTTIME is therefore CLOCK_MONOTONIC plus a constant. After any other
// change, such as a clock that was set, the system call decides.
type bootClock struct{ last atomic.Pointer[clockOffsets] }

// clockOffsets are differences of clocks at one time, in nanoseconds.
type clockOffsets struct {
	real int64 // CLOCK_REALTIME minus CLOCK_MONOTONIC
	boot int64 // CLOCK_BOOTTIME minus CLOCK_MONOTONIC
}

// maxOffsetNoise is how much two readings of an unchanged difference may differ, in nanoseconds,
// because two clocks are not read at the same instant. A shorter suspend goes unnoticed.
const maxOffsetNoise = int64(time.Millisecond)

// started is the origin of the process's CLOCK_MONOTONIC readings.
var started = time.Now()

// now returns CLOCK_BOOTTIME in nanoseconds.
func (c *bootClock) now() int64 {
	mono, offset := readClocks()
	if last := c.last.Load(); last != nil && isNoise(offset-last.real) {
		return mono + last.boot
	}
	return c.readBoot()
}

// readBoot makes the system call, and stores the offsets if all clocks were read in a short time.
func (c *bootClock) readBoot() int64 {
	mono, before := readClocks()
	boot := Now()
	end, after := readClocks()
	if end-mono < maxOffsetNoise/2 && isNoise(after-before) {
		c.last.Store(&clockOffsets{real: before, boot: boot - mono})
	}
	return boot
}

// readClocks returns CLOCK_MONOTONIC, and CLOCK_REALTIME minus it.
func readClocks() (mono, offset int64) {
	now := time.Now()
	mono = int64(now.Sub(started))
	return mono, now.UnixNano() - mono
}

func isNoise(d int64) bool { return -maxOffsetNoise <= d && d <= maxOffsetNoise }
