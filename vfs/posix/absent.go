//go:build linux

package posix

import (
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/handletable"
)

// An absentHandles caches for absentTime the handles that the table does not know and whose object
// is not in the directory that the handle names. Each miss reads a whole directory. It also bounds
// the directories read concurrently.
type absentHandles struct {
	searchSlots chan struct{}

	mu    sync.Mutex
	until map[handletable.ID]time.Time
}

func newAbsentHandles() *absentHandles {
	return &absentHandles{searchSlots: make(chan struct{}, maxSearches), until: make(map[handletable.ID]time.Time)}
}

func (a *absentHandles) isAbsent(id handletable.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.until[id]
	return ok && time.Now().Before(until)
}

func (a *absentHandles) addID(id handletable.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.until) >= maxAbsent {
		clear(a.until)
	}
	a.until[id] = time.Now().Add(absentTime)
}

// removeID drops id because its object was seen.
func (a *absentHandles) removeID(id handletable.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.until, id)
}

func (a *absentHandles) acquireSlot() { a.searchSlots <- struct{}{} }
func (a *absentHandles) releaseSlot() { <-a.searchSlots }
