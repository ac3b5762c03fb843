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
// all have requests, the one with the oldest request, if that is older than long: the
// time of a profile, which the client chooses, has no other bound. Otherwise the new
// one is closed.
type connBound struct {
	most int
	long time.Duration

	mu      sync.Mutex
	waiting map[net.Conn]time.Time // for a request, since then
	asked   map[net.Conn]time.Time // a request, then
	conns   int
}

func newConnBound(most int, long time.Duration) *connBound {
	return &connBound{most: most, long: long, waiting: make(map[net.Conn]time.Time), asked: make(map[net.Conn]time.Time)}
}

func (b *connBound) changed(c net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch state {
	case http.StateNew:
		b.conns++
		if b.conns > b.most {
			b.leaving(c).Close() // its end is told to changed
		}
		b.waiting[c] = time.Now()
	case http.StateIdle:
		delete(b.asked, c)
		b.waiting[c] = time.Now()
	case http.StateActive:
		delete(b.waiting, c)
		b.asked[c] = time.Now()
	case http.StateClosed, http.StateHijacked:
		delete(b.waiting, c)
		delete(b.asked, c)
		b.conns--
	}
}

// leaving returns the connection to be closed for a new one. It returns each once.
func (b *connBound) leaving(newcomer net.Conn) net.Conn {
	if c := oldest(b.waiting); c != nil {
		delete(b.waiting, c)
		return c
	}
	if c := oldest(b.asked); c != nil && time.Since(b.asked[c]) > b.long {
		delete(b.asked, c)
		return c
	}
	return newcomer
}

// oldest returns the connection with the earliest time, or nil if there is none.
func oldest(conns map[net.Conn]time.Time) (found net.Conn) {
	for c, at := range conns {
		if found == nil || at.Before(conns[found]) {
			found = c
		}
	}
	return found
}
