package oncrpc

import (
	"sync"
	"sync/atomic"
)

// XIDs allocates XIDs for the calls to one server, over all connections to it.
type XIDs struct {
	last atomic.Uint32

	// A call that waits for a connection keeps its XID, although no connection uses it.
	// kept is usually empty.
	keptCount atomic.Int32 // len(kept)
	mu        sync.Mutex
	kept      map[uint32]struct{}
}

// NewXIDs returns an allocator that starts with first, which should be random: a server
// that remembers the replies to an earlier process must not confuse their calls.
func NewXIDs(first uint32) *XIDs {
	s := new(XIDs)
	s.last.Store(first - 1)
	return s
}

// Next returns an XID that is not kept and not 0; 0 means none.
func (s *XIDs) Next() uint32 {
	for {
		if xid := s.last.Add(1); xid != 0 && !s.isKept(xid) {
			return xid
		}
	}
}

func (s *XIDs) isKept(xid uint32) bool {
	if s.keptCount.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.kept[xid]
	return ok
}

// Keep reserves an XID until it is released.
func (s *XIDs) Keep(xid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = make(map[uint32]struct{})
	}
	s.kept[xid] = struct{}{}
	s.keptCount.Store(int32(len(s.kept)))
}

// Release ends the reservation of an XID.
func (s *XIDs) Release(xid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, xid)
	s.keptCount.Store(int32(len(s.kept)))
}
