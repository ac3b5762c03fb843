package client

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// boottime reads CLOCK_BOOTTIME, by a system call.
func boottime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // every Linux that Go runs on has it
	return time.Duration(ts.Nano())
}

// A bootClock tells CLOCK_BOOTTIME without a system call, most of the time. The two
// clocks that cost none are CLOCK_MONOTONIC, which stands still while the machine
// sleeps, and CLOCK_REALTIME, which does not: as long as they go on alike, there was no
// sleep since CLOCK_BOOTTIME was read last.
//
// While a virtual machine is paused, CLOCK_BOOTTIME stands still too. Sooner or later
// CLOCK_REALTIME is set right then: by as much as it is set forward, the bootClock goes
// on, for the server did. Whoever sets the clock for another reason has what is held
// looked at once more than was needed.
type bootClock struct {
	boot func() time.Duration
	base time.Time // where mono begins
	last atomic.Pointer[bootSample]

	pauses atomic.Uint64 // that were found
}

// A bootSample is by how much the other clocks were ahead of mono at some time, and of
// boot how much of that is for pauses.
type bootSample struct{ boot, wall, paused time.Duration }

func newBootClock() *bootClock { return &bootClock{boot: boottime, base: time.Now()} }

// Now reads the clock.
func (b *bootClock) Now() time.Duration {
	t := time.Now()
	return b.at(t.Sub(b.base), time.Duration(t.UnixNano()))
}

// at is Now for a reading of the other clocks.
func (b *bootClock) at(mono, wall time.Duration) time.Duration {
	for {
		last := b.last.Load()
		if last != nil && (wall-mono-last.wall).Abs() <= clockSlack {
			return mono + last.boot
		}
		next := b.sample(last, mono, wall)
		if b.last.CompareAndSwap(last, next) {
			if last != nil && next.paused > last.paused {
				b.pauses.Add(1)
			}
			return mono + next.boot
		}
	}
}

// sample reads CLOCK_BOOTTIME. Who was held up since mono and wall were read is ahead
// of the time, by no more than that. What did not sleep goes on as before, so that
// the clock never goes back.
func (b *bootClock) sample(last *bootSample, mono, wall time.Duration) *bootSample {
	next := &bootSample{boot: b.boot() - mono, wall: wall - mono}
	if last == nil {
		return next
	}
	slept := max(0, next.boot+last.paused-last.boot)
	next.paused = last.paused
	if jump := next.wall - last.wall - slept; jump > wallJump {
		next.paused += jump
	}
	next.boot += next.paused
	if next.boot < last.boot+clockSlack {
		next.boot = last.boot
	}
	return next
}
