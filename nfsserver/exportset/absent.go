package exportset

import (
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// A removedIDs remembers the IDs of exports that SetExports has removed.
type removedIDs struct {
	mu  sync.Mutex
	ids map[uint32]struct{} // at most maxRemovedIDs
}

func (r *removedIDs) add(id uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids = make(map[uint32]struct{})
	}
	if len(r.ids) < maxRemovedIDs {
		r.ids[id] = struct{}{}
	}
}

func (r *removedIDs) contains(id uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, found := r.ids[id]
	return found
}

// unknownIDError returns the error for a handle with an ID that no export in a snapshot has. It is
// Later if the export may still appear: its fsid= is in a line with an error, or it is a submount or
// subvolume of an export that is unavailable, or of one that has been served only for a short time.
// Otherwise the export has been removed.
func (s *Set) unknownIDError(set *Snapshot, id uint32) error {
	isStarting := time.Since(s.created) < appearTime
	mayAppear := false
	for _, e := range set.list {
		if e.ClientsUnknown() {
			return Later
		}
		mayAppear = mayAppear || e.isUnavailable || isStarting && e.hasClient(crossesMounts)
	}
	if mayAppear && !s.removed.contains(id) {
		return Later
	}
	return Stale
}

// hasClient reports whether is returns true for the options of any of e's clients.
func (e *Exported) hasClient(is func(*exports.Options) bool) bool {
	for i := range e.Clients {
		if is(&e.Clients[i].Options) {
			return true
		}
	}
	return false
}
