//go:build linux

package posix

import (
	"sync"
	"time"
)

// An absent remembers handles that the table does not know and whose object is not
// where they say, for a while: to find that out, a directory is read from end to end.
// It also bounds how many are being read.
type absent struct {
	room chan struct{}

	mu    sync.Mutex
	until map[tableID]time.Time
}

func newAbsent() *absent {
	return &absent{room: make(chan struct{}, maxSearches), until: make(map[tableID]time.Time)}
}

func (a *absent) has(id tableID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.until[id]
	return ok && time.Now().Before(until)
}

func (a *absent) add(id tableID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.until) >= maxAbsent {
		clear(a.until)
	}
	a.until[id] = time.Now().Add(absentTime)
}

// forget is for an object that was seen.
func (a *absent) forget(id tableID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.until, id)
}

func (a *absent) searching() { a.room <- struct{}{} }
func (a *absent) searched()  { <-a.room }
