package rpcrdma

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// xids allocates the XIDs of the calls to one server, over all connections to
// it. The first is random, so that a server that remembers the replies to an
// earlier process does not confuse their calls.
type xids struct {
	last atomic.Uint32

	// A call that waits for a connection keeps its XID, although no connection
	// has it in use then. kept is usually empty.
	held atomic.Int32 // len(kept)
	mu   sync.Mutex
	kept map[uint32]struct{}
}

func newXIDs() *xids {
	s := new(xids)
	s.last.Store(rand.Uint32())
	return s
}

// next returns an XID that is not kept and not 0, which stands for none.
func (s *xids) next() uint32 {
	for {
		if xid := s.last.Add(1); xid != 0 && !s.isKept(xid) {
			return xid
		}
	}
}

func (s *xids) isKept(xid uint32) bool {
	if s.held.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.kept[xid]
	return ok
}

// keep reserves an XID until it is released.
func (s *xids) keep(xid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = make(map[uint32]struct{})
	}
	s.kept[xid] = struct{}{}
	s.held.Store(int32(len(s.kept)))
}

func (s *xids) release(xid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, xid)
	s.held.Store(int32(len(s.kept)))
}
