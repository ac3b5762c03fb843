package client

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// boottime reads CLOCK_BOOTTIME with a system call.
func boottime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // every Linux that Go supports has this clock
	return time.Duration(ts.Nano())
}

// A bootClock reads CLOCK_BOOTTIME, usually without a system call. Two clocks
// need no system call: CLOCK_MONOTONIC, which stops while the machine sleeps,
// and CLOCK_REALTIME, which does not. As long as both advance equally, the
// machine has not slept since the last reading of CLOCK_BOOTTIME.
//
// While a virtual machine is paused, CLOCK_BOOTTIME stops too. Sooner or later
// CLOCK_REALTIME is corrected. The bootClock then advances by the amount of
// that correction, because the server's clock did so during the pause. If
// CLOCK_REALTIME is set forward for another reason, the client drops its
// delegations once without need.
type bootClock struct {
	boot func() time.Duration
	base time.Time // origin of mono
	last atomic.Pointer[bootSample]

	pauses atomic.Uint64 // number of pauses found
}

// A bootSample is how far the other clocks were ahead of mono at some time. The
// field paused is the part of boot that stands for pauses.
type bootSample struct{ boot, wall, paused time.Duration }

func newBootClock() *bootClock { return &bootClock{boot: boottime, base: time.Now()} }

// Now reads the clock.
func (b *bootClock) Now() time.Duration {
	t := time.Now()
	return b.at(t.Sub(b.base), time.Duration(t.UnixNano()))
}

// at is Now for a given reading of the other clocks.
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

// sample reads CLOCK_BOOTTIME. If the goroutine was delayed since mono and wall
// were read, the sample is ahead of the true time, but by no more than the
// delay. Without a sleep the offset does not change, so the clock never runs
// backwards.
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
