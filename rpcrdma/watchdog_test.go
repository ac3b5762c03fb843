package rpcrdma

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestWatchdogRests checks that the watchdog stops when no reader serves calls.
func TestWatchdogRests(t *testing.T) {
	serveTap(t, &Server{Handler: null}, &tap{relievable: true}, func(t *testing.T, r *rig) {
		q := r.dialLinux()
		for range 3 {
			q.xidCall(1)
			assert.Len(t, q.answers(), 1)
			assert.Equal(t, 1, r.watched())
			time.Sleep((maxRest + 1) * watchdogCalm)
			assert.Zero(t, r.watched())
		}
	})
}

// TestWatchdogCalm checks that the watchdog's period grows while readers are
// quick, and shrinks as soon as a reader is not.
func TestWatchdogCalm(t *testing.T) {
	s := &snare{from: 100}
	serveTap(t, &Server{Handler: s}, &tap{relievable: true}, func(t *testing.T, r *rig) {
		s.open = make(chan struct{})
		q := r.dialLinux()
		for range 20 {
			q.xidCall(1)
			time.Sleep(watchdogCalm)
		}
		period := func() time.Duration {
			synctest.Wait()
			r.watchdog.mu.Lock()
			defer r.watchdog.mu.Unlock()
			return r.watchdog.period
		}
		assert.Equal(t, watchdogCalm, period())
		q.xidCall(100)
		least := watchdogCalm
		for range 3 * watchdogCalm / watchdogPeriod {
			time.Sleep(watchdogPeriod)
			least = min(least, period())
		}
		assert.Equal(t, watchdogPeriod, least)
		q.xidCall(2)
		assert.Contains(t, xidsOf(q.answers()), uint32(2))
		close(s.open)
	})
}

// TestWatchdogEnter checks that a reader that begins to serve during a check is not waited for, and
// is checked from the next check on.
func TestWatchdogEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s watchdog
		s.init()
		checked := func() []*conn {
			s.mu.Lock()
			defer s.mu.Unlock()
			return slices.Clone(s.conns)
		}
		first, second := &conn{}, &conn{}
		s.enter(first)
		s.checking = true // by another goroutine, which owns conns
		s.enter(second)
		s.enter(second)
		assert.Equal(t, []*conn{first}, checked())
		s.check()
		assert.Equal(t, []*conn{first, second}, checked())
		time.Sleep((maxRest + 2) * watchdogCalm)
		synctest.Wait()
		assert.Empty(t, checked())
		assert.False(t, second.reader.guarded.Load())
	})
}

// watched returns how many readers the watchdog checks.
func (r *rig) watched() int {
	synctest.Wait()
	r.watchdog.mu.Lock()
	defer r.watchdog.mu.Unlock()
	return len(r.watchdog.conns)
}

// TestSlowness checks that some calls are too slow for a reader however slow
// the processor is, and that an infinitely fast processor has the limit of a
// usual one.
func TestSlowness(t *testing.T) {
	n := slowness()
	assert.GreaterOrEqual(t, n, 1)
	assert.LessOrEqual(t, n, maxSlowness)
	synctest.Test(t, func(t *testing.T) { assert.Equal(t, 1, slowness()) })
}
