package client

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// readBootTime reads CLOCK_BOOTTIME with a system call.
func readBootTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // every Linux that Go supports has this clock
	return time.Duration(ts.Nano())
}

// A bootClock reads CLOCK_BOOTTIME, usually without a system call. Two clocks
// need no system call: CLOCK_MONOTONIC, which stops during suspend, and
// CLOCK_REALTIME, which does not. While both advance equally, the machine has
// not been suspended since the last reading of CLOCK_BOOTTIME.
//
// While a virtual machine is paused, CLOCK_BOOTTIME stops too. Sooner or later
// CLOCK_REALTIME is corrected. The bootClock then advances by that correction,
// because the server's clock did so during the pause. If CLOCK_REALTIME is set
// forward for another reason, the client drops its delegations once
// unnecessarily.
type bootClock struct {
	readBoot func() time.Duration
	origin   time.Time // origin of mono
	last     atomic.Pointer[bootSample]

	pauses atomic.Uint64 // number of pauses found
}

// A bootSample holds the other clocks' offsets from mono at some time. The
// field paused is the part of boot that represents pauses.
type bootSample struct{ boot, wall, paused time.Duration }

func newBootClock() *bootClock { return &bootClock{readBoot: readBootTime, origin: time.Now()} }

// now reads the clock.
func (b *bootClock) now() time.Duration {
	t := time.Now()
	return b.timeAt(t.Sub(b.origin), time.Duration(t.UnixNano()))
}

// timeAt returns the clock for given readings of the other clocks.
func (b *bootClock) timeAt(mono, wall time.Duration) time.Duration {
	for {
		last := b.last.Load()
		if last != nil && (wall-mono-last.wall).Abs() <= clockSlack {
			return mono + last.boot
		}
		next := b.takeSample(last, mono, wall)
		if b.last.CompareAndSwap(last, next) {
			if last != nil && next.paused > last.paused {
				b.pauses.Add(1)
			}
			return mono + next.boot
		}
	}
}

// takeSample reads CLOCK_BOOTTIME. If the goroutine was delayed since mono and
// wall were read, the sample is ahead of the true time, but by no more than the
// delay. Without a suspend the offset does not change, so the clock never runs
// backwards.
func (b *bootClock) takeSample(last *bootSample, mono, wall time.Duration) *bootSample {
	next := &bootSample{boot: b.readBoot() - mono, wall: wall - mono}
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
