package client

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/bootahead"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestBootClock checks that the clock continues while the machine sleeps, never
// runs backwards, and reads CLOCK_BOOTTIME only if the machine may have slept.
func TestBootClock(t *testing.T) {
	var boot, mono, wall time.Duration = 5000 * time.Second, 0, 1e18
	reads := 0
	b := &bootClock{readBoot: func() time.Duration { reads++; return boot }}
	run := func(d time.Duration) { boot, mono, wall = boot+d, mono+d, wall+d }
	at := func() time.Duration { return b.timeAt(mono, wall) }
	assert.Equal(t, boot, at())
	for range 100 {
		run(time.Minute)
		wall += 9 * time.Microsecond // between two readings
		assert.Equal(t, boot, at())
		wall -= 9 * time.Microsecond
	}
	assert.Equal(t, 1, reads)

	boot, wall = boot+time.Hour, wall+time.Hour // a sleep
	assert.Equal(t, boot, at())
	assert.Equal(t, 2, reads)
	run(time.Second)
	assert.Equal(t, boot, at())
	assert.Equal(t, 2, reads)

	wall -= 24 * time.Hour // the clock is set by hand
	boot -= time.Microsecond
	assert.Equal(t, boot+time.Microsecond, at(), "not back")
	assert.Equal(t, 3, reads)
	boot += time.Microsecond
	run(time.Second)
	assert.Equal(t, boot, at())
	assert.Equal(t, 3, reads)
}

// TestBootClockPaused checks a pause of a virtual machine, in which all clocks
// but the server's stop. The client's clock is behind by the pause until
// CLOCK_REALTIME is set; the adjustment counts as elapsed time.
func TestBootClockPaused(t *testing.T) {
	var boot, mono, wall time.Duration = 5000 * time.Second, 0, 1e18
	b := &bootClock{readBoot: func() time.Duration { return boot }}
	run := func(d time.Duration) { boot, mono, wall = boot+d, mono+d, wall+d }
	at := func() time.Duration { return b.timeAt(mono, wall) }
	require.Equal(t, boot, at())
	var gone time.Duration
	for _, set := range []time.Duration{time.Minute, 2 * time.Second, time.Hour} {
		run(time.Second)
		wall += set
		gone += set
		assert.Equal(t, boot+gone, at())
		run(time.Second)
		assert.Equal(t, boot+gone, at())
		wall -= set // no reason to go back
		assert.Equal(t, boot+gone, at())
	}
	for range 100 { // NTP's adjustment of the rate
		run(time.Minute)
		wall += 500 * time.Millisecond
		assert.Equal(t, boot+gone, at())
	}
	boot, wall = boot+time.Hour, wall+time.Hour // a sleep, and the clock set after it
	assert.Equal(t, boot+gone, at())
	boot, wall = boot+time.Hour, wall+time.Hour+5*time.Second
	gone += 5 * time.Second
	assert.Equal(t, boot+gone, at())
	assert.EqualValues(t, 4, b.pauses.Load())
}

// TestSetHearsPauses checks that a Set sees the pauses that its own clock
// detects.
func TestSetHearsPauses(t *testing.T) {
	s, clock := New(Config{}), newBootClock()
	s.setClock(clock)
	s.cfg.Now()
	assert.Zero(t, s.pauses())
	clock.timeAt(time.Since(clock.origin), time.Duration(time.Now().Add(time.Hour).UnixNano()))
	assert.EqualValues(t, 1, s.pauses())
}

// TestBootClockAgrees checks that the clock agrees with the kernel's and
// allocates nothing.
func TestBootClockAgrees(t *testing.T) {
	b := newBootClock()
	before := readBootTime()
	now := b.now()
	assert.Less(t, before-clockSlack, now)
	assert.Less(t, now, readBootTime()+time.Minute)
	assert.Zero(t, testing.AllocsPerRun(100, func() { b.now() }))
}

func BenchmarkBootClock(b *testing.B) {
	c := newBootClock()
	for b.Loop() {
		c.now()
	}
}

// TestBoottime checks that a Set's clock continues during suspend, as the
// server's does.
func TestBoottime(t *testing.T) {
	bootahead.Run(t, func(t *testing.T) {
		var mono unix.Timespec
		assert.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono))
		assert.GreaterOrEqual(t, readBootTime()-time.Duration(mono.Nano()), bootahead.By)
		assert.GreaterOrEqual(t, New(Config{}).cfg.Now()-time.Duration(mono.Nano()), bootahead.By)
	})
}
