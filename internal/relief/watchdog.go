package relief

import (
	"sync"
	"time"
)

// Limits of our own.
const (
	// slowCall is how long a call may take before another goroutine than the
	// reader should serve its kind: many times the cost of handing a call over.
	// It holds for a processor that switches to another goroutine and back in
	// quickSwitch or less. If a switch takes several times that, as on an
	// emulated processor, the limit is as many times slowCall, up to
	// maxSlowness.
	slowCall    = 150 * time.Microsecond
	quickSwitch = 500 * time.Nanosecond
	maxSlowness = 32

	// MaxTurn is how many calls a reader serves before others may run.
	MaxTurn = 64

	// watchdogPeriod is how often the watchdog checks the readers: a reader
	// that is kept is relieved after one to two periods. While the watchdog
	// finds none, the period doubles up to watchdogCalm, because each check wakes
	// a thread. A reader that was idle at maxRest checks in a row is no longer
	// checked.
	watchdogPeriod = time.Millisecond
	watchdogCalm   = 16 * time.Millisecond
	maxRest        = 8
)

// A Watchdog periodically checks the readers that serve calls, as long as there
// are any, and relieves a reader that still serves the same call as at the last
// check. Init must come before all else.
type Watchdog struct {
	// Slow is the limit of a call that a reader serves. After a call that took
	// longer, others should serve the next calls of its kind, few at first.
	Slow time.Duration

	timer *time.Timer

	mu       sync.Mutex
	readers  []*Reader
	entered  []*Reader // during a check
	checking bool
	period   time.Duration
}

// Init makes the parts that have no useful zero value.
func (s *Watchdog) Init() {
	s.Slow = time.Duration(slowness()) * slowCall
	s.timer = time.AfterFunc(watchdogPeriod, s.check)
	s.timer.Stop()
}

// enter makes the watchdog check r from now on. It does not wait for a check.
func (s *Watchdog) enter(r *Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.guarded.Swap(true) {
		return
	}
	r.rest = 0
	if s.checking {
		s.entered = append(s.entered, r)
		return
	}
	s.readers = append(s.readers, r)
	if len(s.readers) == 1 {
		s.period = watchdogPeriod
		s.timer.Reset(s.period)
	}
}

// check checks all readers once. It owns readers meanwhile, without the lock: relieving a reader takes
// time, and readers that begin to serve must not wait for it.
func (s *Watchdog) check() {
	s.mu.Lock()
	s.checking = true
	s.mu.Unlock()
	kept, late := s.readers[:0], false
	for _, r := range s.readers {
		again, relieved := r.watch()
		if again {
			kept = append(kept, r)
		}
		late = late || relieved
	}
	clear(s.readers[len(kept):])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checking = false
	s.readers = append(kept, s.entered...)
	clear(s.entered)
	s.entered = s.entered[:0]
	s.period = min(2*s.period, watchdogCalm)
	if late {
		s.period = watchdogPeriod
	}
	if len(s.readers) > 0 {
		s.timer.Reset(s.period)
	}
}

// slowness returns how many times longer than usual this processor takes to
// switch from one goroutine to another, which is the cost of handing a call
// over. It takes the least of some attempts, because other work may want the
// processor too.
func slowness() int {
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
	<-from // the goroutine has ended
	return max(1, int(least/quickSwitch))
}
