package rpcrdma

import (
	"sync"
	"time"
)

// A watchdog looks at the readers that serve calls, again and again while there are
// any, and relieves one that is still at the same call as the last time.
type watchdog struct {
	timer *time.Timer

	mu     sync.Mutex
	conns  []*conn
	period time.Duration
}

func (s *watchdog) init() {
	s.timer = time.AfterFunc(watchdogPeriod, s.check)
	s.timer.Stop()
}

// enter has the watchdog look at a connection's reader from now on.
func (s *watchdog) enter(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.reader.guarded.Swap(true) {
		return
	}
	c.reader.rest = 0
	s.conns = append(s.conns, c)
	if len(s.conns) == 1 {
		s.period = watchdogPeriod
		s.timer.Reset(s.period)
	}
}

// check looks once.
func (s *watchdog) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.period = min(2*s.period, sentryCalm)
	kept := s.conns[:0]
	for _, c := range s.conns {
		again, relieved := c.watchReader()
		if again {
			kept = append(kept, c)
		}
		if relieved {
			s.period = watchdogPeriod
		}
	}
	clear(s.conns[len(kept):])
	s.conns = kept
	if len(kept) > 0 {
		s.timer.Reset(s.period)
	}
}

// watchReader looks at c's reader, and reports whether to do so again, and whether
// it has relieved the reader. A reader says that it serves before it asks whether
// it is guarded.
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
	r.guarded.Store(true)
	return true, false
}

// handOffReader has another goroutine read, if the reader still serves call n.
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

// slowness tells how many times longer this processor takes than a usual one to run
// one goroutine after another, which is what counts where a call is handed over. It
// is the least of some attempts, as others may want the processor too.
func slowness() int {
	to, from := make(chan struct{}), make(chan struct{})
	go func() {
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
	return max(1, int(least/quickSwitch))
}
