package main

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// maxMonitor bounds the connections to --metrics: each has a goroutine and a descriptor.
const maxMonitor = 64

// A connBound bounds the connections of an HTTP server. Its method changed is the
// server's ConnState. Above the bound, the connection that has waited longest for a
// request is closed, so that connections without requests keep no scraper out; if
// all have requests, the new one is closed.
type connBound struct {
	most int

	mu      sync.Mutex
	waiting map[net.Conn]time.Time // for a request, since then
	conns   int
}

func (b *connBound) changed(c net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch state {
	case http.StateNew:
		b.conns++
		if b.conns > b.most {
			b.longest(c).Close() // its end is told to changed
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

// longest returns the connection that has waited longest, or otherwise if none waits.
// It returns each connection once.
func (b *connBound) longest(otherwise net.Conn) net.Conn {
	found := otherwise
	var since time.Time
	for c, at := range b.waiting {
		if found == otherwise || at.Before(since) {
			found, since = c, at
		}
	}
	delete(b.waiting, found)
	return found
}
