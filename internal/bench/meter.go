package main

import (
	"sync"
	"time"
)

// sampleCount is the number of memory samples while a client runs.
const sampleCount = 20

// A memoryMeter samples a server's memory.
type memoryMeter struct {
	mu      sync.Mutex
	samples series
}

// startSampling samples the memory of s until the returned function is called.
func (m *memoryMeter) startSampling(s *server, d time.Duration) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(max(d/sampleCount, time.Millisecond))
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
			}
			n := s.residentBytes()
			m.mu.Lock()
			m.samples = append(m.samples, n)
			m.mu.Unlock()
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// lastMedian returns the median, in bytes, of the last samples, taken while the
// client is idle before it exits.
func (m *memoryMeter) lastMedian() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.samples[max(len(m.samples)-sampleCount, 0):].median()
}
