package relief

import (
	"sync"
	"time"
)

// Limits of our own.
const (
	// slowCall is the time that a call may take before another goroutine than the
	// reader should serve its kind: many times the cost of handing a call over. It
	// applies to a processor that switches to another goroutine and back in
	// quickSwitch or less. If a switch takes several times that, as on an emulated
	// processor, the limit is multiplied likewise, up to maxSlowness times.
	slowCall    = 150 * time.Microsecond
	quickSwitch = 500 * time.Nanosecond
	maxSlowness = 32

	// MaxTurn is the number of calls that a reader serves before others may run.
	MaxTurn = 64

	// watchdogPeriod is the interval at which the watchdog checks the readers: an
	// occupied reader is relieved after one to two periods. While the watchdog
	// finds none, the period doubles up to watchdogCalm, because each check wakes a
	// thread. A reader that was idle at maxIdleChecks consecutive checks is no
	// longer checked.
	watchdogPeriod = time.Millisecond
	watchdogCalm   = 16 * time.Millisecond
	maxIdleChecks  = 8
)

// A Watchdog periodically checks the readers that serve calls, as long as there are
// any, and relieves a reader that still serves the same call as at the last check.
// Init must be called first.
type Watchdog struct {
	// Slow is the time limit for a call that a reader serves. After a call that
	// took longer, others should serve the next calls of its kind, few at first.
	Slow time.Duration

	timer *time.Timer

	mu       sync.Mutex
	readers  []*Reader
	added    []*Reader // during a check
	checking bool
	period   time.Duration
}

// Init initializes the fields that have no useful zero value.
func (s *Watchdog) Init() {
	s.Slow = time.Duration(measureSlowness()) * slowCall
	s.timer = time.AfterFunc(watchdogPeriod, s.checkReaders)
	s.timer.Stop()
}

// addReader makes the watchdog check r from now on. It does not wait for a check.
func (s *Watchdog) addReader(r *Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.guarded.Swap(true) {
		return
	}
	r.idleChecks = 0
	if s.checking {
		s.added = append(s.added, r)
		return
	}
	s.readers = append(s.readers, r)
	if len(s.readers) == 1 {
		s.period = watchdogPeriod
		s.timer.Reset(s.period)
	}
}

// checkReaders checks all readers once. Until it returns it owns readers, without
// the lock: relieving a reader takes time, and readers that begin to serve must not
// wait for it.
func (s *Watchdog) checkReaders() {
	s.mu.Lock()
	s.checking = true
	s.mu.Unlock()
	kept, late := s.readers[:0], false
	for _, r := range s.readers {
		again, relieved := r.checkReader()
		if again {
			kept = append(kept, r)
		}
		late = late || relieved
	}
	clear(s.readers[len(kept):])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checking = false
	s.readers = append(kept, s.added...)
	clear(s.added)
	s.added = s.added[:0]
	s.period = min(2*s.period, watchdogCalm)
	if late {
		s.period = watchdogPeriod
	}
	if len(s.readers) > 0 {
		s.timer.Reset(s.period)
	}
}

// measureSlowness returns how many times longer than usual this processor takes to
// switch from one goroutine to another, which is the cost of handing a call over.
// It uses the minimum over some attempts, because other work may also use the
// processor.
func measureSlowness() int {
	to, from := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(from)
		for range to {
			from <- struct{}{}
		}
	}()
	least := maxSlowness * quickSwitch
	for range 32 {
		start := time.Now()
		to <- struct{}{}
		<-from
		least = min(least, time.Since(start))
	}
	close(to)
	<-from // the goroutine has returned
	return max(1, int(least/quickSwitch))
}
