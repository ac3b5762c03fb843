package nfs4state

import (
	"sync"
	"sync/atomic"
)

// A slab maps indexes to values. Lookups need neither a mutex nor an
// allocation.
type slab[T any] struct {
	mu     sync.Mutex // for takeIndex and remove
	chunks [slabSize / slabChunk]atomic.Pointer[[slabChunk]atomic.Pointer[T]]
	free   []uint32
	next   uint32
}

const (
	slabSize  = 1 << slabBits
	slabBits  = 20
	slabChunk = 1024
)

// takeIndex returns an unused index. The caller bounds the number of values by
// slabSize.
func (s *slab[T]) takeIndex() (i uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
		return i
	}
	i = s.next
	s.next++
	if chunk := &s.chunks[i/slabChunk]; chunk.Load() == nil {
		chunk.Store(new([slabChunk]atomic.Pointer[T]))
	}
	return i
}

// put stores a value, which must be complete, at an index from takeIndex.
func (s *slab[T]) put(i uint32, v *T) { s.chunks[i/slabChunk].Load()[i%slabChunk].Store(v) }

func (s *slab[T]) remove(i uint32) {
	s.put(i, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, i)
}

// get returns the value at an index, or nil if the index is unused or too high.
func (s *slab[T]) get(i uint32) *T {
	if i >= slabSize {
		return nil
	}
	chunk := s.chunks[i/slabChunk].Load()
	if chunk == nil {
		return nil
	}
	return chunk[i%slabChunk].Load()
}
