//go:build linux

package posix

import (
	"sync"
	"time"
)

// An absent remembers for a while handles that the table does not know and
// whose object is not in the directory that the handle names. Finding that out
// means reading a directory from end to end. An absent also bounds how many
// directories are read at a time.
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

// forget drops id because its object was seen.
func (a *absent) forget(id tableID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.until, id)
}

func (a *absent) searching() { a.room <- struct{}{} }
func (a *absent) searched()  { <-a.room }
