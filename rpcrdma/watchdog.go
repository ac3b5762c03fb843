package rpcrdma

import (
	"sync"
	"time"
)

// A watchdog periodically checks the readers that serve calls, as long as there
// are any, and relieves a reader that still serves the same call as at the last
// check.
type watchdog struct {
	timer *time.Timer

	mu       sync.Mutex
	conns    []*conn
	entered  []*conn // during a check
	checking bool
	period   time.Duration
}

func (s *watchdog) init() {
	s.timer = time.AfterFunc(watchdogPeriod, s.check)
	s.timer.Stop()
}

// enter makes the watchdog check a connection's reader from now on. It does not wait for a check.
func (s *watchdog) enter(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.reader.guarded.Swap(true) {
		return
	}
	c.reader.rest = 0
	if s.checking {
		s.entered = append(s.entered, c)
		return
	}
	s.conns = append(s.conns, c)
	if len(s.conns) == 1 {
		s.period = watchdogPeriod
		s.timer.Reset(s.period)
	}
}

// check checks all readers once. It owns conns meanwhile, without the lock: relieving a reader takes
// time, and readers that begin to serve must not wait for it.
func (s *watchdog) check() {
	s.mu.Lock()
	s.checking = true
	s.mu.Unlock()
	kept, late := s.conns[:0], false
	for _, c := range s.conns {
		again, relieved := c.watchReader()
		if again {
			kept = append(kept, c)
		}
		late = late || relieved
	}
	clear(s.conns[len(kept):])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checking = false
	s.conns = append(kept, s.entered...)
	clear(s.entered)
	s.entered = s.entered[:0]
	s.period = min(2*s.period, watchdogCalm)
	if late {
		s.period = watchdogPeriod
	}
	if len(s.conns) > 0 {
		s.timer.Reset(s.period)
	}
}

// watchReader checks c's reader. again is false when the reader needs no more
// checks. A reader sets serving before it reads guarded, so clearing guarded
// and then reading serving misses no call.
func (c *conn) watchReader() (again, relieved bool) {
	r := &c.reader
	n := r.serving.Load()
	if n != 0 {
		relieved = n == r.seen && c.handOffReader(n)
		r.seen, r.rest = n, 0
		return true, relieved
	}
	if r.rest++; r.rest < maxRest {
		return true, false
	}
	r.guarded.Store(false)
	if r.serving.Load() == 0 {
		return false, false
	}
	return !r.guarded.Swap(true), false // or the reader has entered again
}

// handOffReader makes another goroutine read, if the reader still serves call
// n.
func (c *conn) handOffReader(n uint64) bool {
	r := &c.reader
	r.relieving.Lock()
	defer r.relieving.Unlock()
	if !r.serving.CompareAndSwap(n, 0) {
		return false
	}
	r.kind.slow()
	c.srv.calls.adopt(c.party.Own.queue)
	r.relief.HandOffReader()
	return true
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
