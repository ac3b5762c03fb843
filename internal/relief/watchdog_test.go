package relief

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// countWatched returns the number of readers that the watchdog checks, and its
// period.
func (s *Watchdog) countWatched() (readers int, period time.Duration) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.readers), s.period
}

// TestWatchdogRests checks that the watchdog stops when no reader serves calls.
func TestWatchdogRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Watchdog
		var r Reader
		var k Kind
		s.Init()
		for range 3 {
			assert.True(t, r.End(r.Begin(&s, &k)))
			n, _ := s.countWatched()
			assert.Equal(t, 1, n)
			time.Sleep((maxIdleChecks + 1) * watchdogCalm)
			n, _ = s.countWatched()
			assert.Zero(t, n)
		}
	})
}

// TestWatchdogCalm checks that the watchdog's period grows while readers are
// quick, and shrinks as soon as a reader is not. That reader is relieved once,
// and its kind is slow.
func TestWatchdogCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Watchdog
		relieved := 0
		r := Reader{Relieve: func() { relieved++ }}
		var k Kind
		s.Init()
		for range 20 {
			assert.True(t, r.End(r.Begin(&s, &k)))
			time.Sleep(watchdogCalm)
		}
		_, period := s.countWatched()
		assert.Equal(t, watchdogCalm, period)
		call := r.Begin(&s, &k)
		least := watchdogCalm
		for range 3 * watchdogCalm / watchdogPeriod {
			time.Sleep(watchdogPeriod)
			_, period = s.countWatched()
			least = min(least, period)
		}
		assert.Equal(t, watchdogPeriod, least)
		assert.Equal(t, 1, relieved)
		assert.False(t, k.Takes())
		assert.True(t, r.End(r.Begin(&s, &k)), "the next reader")
		assert.False(t, r.End(call))
		assert.EqualValues(t, 22, r.Calls())
	})
}

// TestEndWaitsForRelieve checks that a relieved reader does not go on before another
// reads.
func TestEndWaitsForRelieve(t *testing.T) {
	var s Watchdog
	begun, reads := make(chan struct{}), make(chan struct{})
	r := Reader{Relieve: func() {
		close(begun)
		<-reads
	}}
	s.Init()
	call := r.Begin(&s, new(Kind))
	<-begun
	ended := make(chan bool)
	go func() { ended <- r.End(call) }()
	select {
	case <-ended:
		assert.Fail(t, "no goroutine reads")
	case <-time.After(10 * time.Millisecond):
	}
	close(reads)
	assert.False(t, <-ended)
}

// TestWatchdogEnter checks that a reader that begins to serve during a check is not
// waited for, and is checked from the next check on.
func TestWatchdogEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Watchdog
		s.Init()
		checked := func() []*Reader {
			s.mu.Lock()
			defer s.mu.Unlock()
			return slices.Clone(s.readers)
		}
		first, second := &Reader{}, &Reader{}
		s.addReader(first)
		s.checking = true // by another goroutine, which owns readers
		s.addReader(second)
		s.addReader(second)
		assert.Equal(t, []*Reader{first}, checked())
		s.checkReaders()
		assert.Equal(t, []*Reader{first, second}, checked())
		time.Sleep((maxIdleChecks + 2) * watchdogCalm)
		synctest.Wait()
		assert.Empty(t, checked())
		assert.False(t, second.guarded.Load())
	})
}

// TestSlowness checks that some calls are too slow for a reader however slow
// the processor is, and that an infinitely fast processor has the limit of a
// usual one.
func TestSlowness(t *testing.T) {
	n := measureSlowness()
	assert.GreaterOrEqual(t, n, 1)
	assert.LessOrEqual(t, n, maxSlowness)
	synctest.Test(t, func(t *testing.T) { assert.Equal(t, 1, measureSlowness()) })
}
