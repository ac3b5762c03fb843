package rpcrdma

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// The watchdog looks at nobody when there is nothing to look at.
func TestSentryRests(t *testing.T) {
	serveTap(t, &Server{Handler: null}, &tap{relievable: true}, func(t *testing.T, r *rig) {
		q := r.dialLinux()
		for range 3 {
			q.xidCall(1)
			assert.Len(t, q.answers(), 1)
			assert.Equal(t, 1, r.watched())
			time.Sleep((maxRest + 1) * sentryCalm)
			assert.Zero(t, r.watched())
		}
	})
}

// The watchdog looks more seldom while readers are quick, and often as soon as one is
// not.
func TestSentryCalm(t *testing.T) {
	s := &snare{from: 100}
	serveTap(t, &Server{Handler: s}, &tap{relievable: true}, func(t *testing.T, r *rig) {
		s.open = make(chan struct{})
		q := r.dialLinux()
		for range 20 {
			q.xidCall(1)
			time.Sleep(sentryCalm)
		}
		period := func() time.Duration {
			synctest.Wait()
			r.watchdog.mu.Lock()
			defer r.watchdog.mu.Unlock()
			return r.watchdog.period
		}
		assert.Equal(t, sentryCalm, period())
		q.xidCall(100)
		least := sentryCalm
		for range 3 * sentryCalm / watchdogPeriod {
			time.Sleep(watchdogPeriod)
			least = min(least, period())
		}
		assert.Equal(t, watchdogPeriod, least)
		q.xidCall(2)
		assert.Contains(t, xidsOf(q.answers()), uint32(2))
		close(s.open)
	})
}

// watched returns how many readers the watchdog looks at.
func (r *rig) watched() int {
	synctest.Wait()
	r.watchdog.mu.Lock()
	defer r.watchdog.mu.Unlock()
	return len(r.watchdog.conns)
}

// However slow the processor is, some calls are too slow for a reader; and where it
// takes no time at all, as many as on a usual one.
func TestSlowness(t *testing.T) {
	n := slowness()
	assert.GreaterOrEqual(t, n, 1)
	assert.LessOrEqual(t, n, maxSlowness)
	synctest.Test(t, func(t *testing.T) { assert.Equal(t, 1, slowness()) })
}
