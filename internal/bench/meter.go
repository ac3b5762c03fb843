package main

import (
	"sync"
	"time"
)

// samples is how often memory is sampled while a client runs.
const samples = 20

// A meter watches the memory of a server.
type meter struct {
	mu   sync.Mutex
	seen series
}

// watch samples the memory of s until the returned function is called.
func (m *meter) watch(s *server, d time.Duration) (stop func()) {
	end := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		t := time.NewTicker(max(d/samples, time.Millisecond))
		defer t.Stop()
		for {
			select {
			case <-end:
				return
			case <-t.C:
			}
			n := s.memory()
			m.mu.Lock()
			m.seen = append(m.seen, n)
			m.mu.Unlock()
		}
	})
	return func() {
		close(end)
		all.Wait()
	}
}

// last returns the median, in bytes, of the samples while the idle client waits
// for its end.
func (m *meter) last() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[max(len(m.seen)-samples, 0):].median()
}
