package report

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// maxMetricsConns bounds the connections to --metrics: each has a goroutine and a descriptor.
const maxMetricsConns = 64

// A connLimiter limits the connections to an HTTP server, whose ConnState is onConnState.
// Above the limit, it closes the connection that has waited longest for a request, so that
// idle connections cannot lock out a scraper, or the new one if all have requests.
type connLimiter struct {
	limit int

	mu      sync.Mutex
	waiting map[net.Conn]time.Time // idle connections, and since when
	conns   int
}

func newConnLimiter(most int) *connLimiter {
	return &connLimiter{limit: most, waiting: make(map[net.Conn]time.Time)}
}

func (b *connLimiter) onConnState(c net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch state {
	case http.StateNew:
		b.conns++
		if b.conns > b.limit {
			b.takeOldestWaiting(c).Close() // onConnState is called again for it
		}
		b.waiting[c] = time.Now()
	case http.StateIdle:
		b.waiting[c] = time.Now()
	case http.StateActive:
		delete(b.waiting, c)
	case http.StateClosed, http.StateHijacked:
		delete(b.waiting, c)
		b.conns--
	}
}

// takeOldestWaiting returns the connection to close for a new one. It returns each one once.
func (b *connLimiter) takeOldestWaiting(newcomer net.Conn) net.Conn {
	longest := newcomer
	for c, at := range b.waiting {
		if longest == newcomer || at.Before(b.waiting[longest]) {
			longest = c
		}
	}
	delete(b.waiting, longest)
	return longest
}
