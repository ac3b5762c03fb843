package nfs4state

import "sync/atomic"

// A slab maps indexes to values. Lookups need neither a mutex nor an
// allocation.
type slab[T any] struct {
	chunks [slabSize / slabChunk]atomic.Pointer[[slabChunk]atomic.Pointer[T]]
	next   atomic.Uint32
	free   [stateParts]freeIndexes // of the clients in each part of the State
}

// freeIndexes are indexes of a slab that have been used before.
type freeIndexes struct {
	mu   checkedMutex[leafRank]
	list []uint32
	_    [32]byte // keeps the lists in different cache lines
}

const (
	slabSize  = 1 << slabBits
	slabBits  = 20
	slabChunk = 1024
)

// takeIndex returns an unused index for a client in the given part. The caller bounds the
// number of values by slabSize.
func (s *slab[T]) takeIndex(part uint8) uint32 {
	if i, ok := s.free[part].take(); ok {
		return i
	}
	for {
		i := s.next.Load()
		if i == slabSize {
			return s.takeOther()
		}
		if !s.next.CompareAndSwap(i, i+1) {
			continue
		}
		if chunk := &s.chunks[i/slabChunk]; chunk.Load() == nil {
			chunk.CompareAndSwap(nil, new([slabChunk]atomic.Pointer[T]))
		}
		return i
	}
}

// takeOther returns an index that any part has used before.
func (s *slab[T]) takeOther() uint32 {
	for part := 0; ; part = (part + 1) % stateParts {
		if i, ok := s.free[part].take(); ok {
			return i
		}
	}
}

func (f *freeIndexes) take() (i uint32, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.list)
	if n == 0 {
		return 0, false
	}
	i, f.list = f.list[n-1], f.list[:n-1]
	return i, true
}

// put stores a value, which must be complete, at an index from takeIndex.
func (s *slab[T]) put(i uint32, v *T) { s.chunks[i/slabChunk].Load()[i%slabChunk].Store(v) }

// remove removes the value of a client in the given part.
func (s *slab[T]) remove(i uint32, part uint8) {
	s.put(i, nil)
	f := &s.free[part]
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, i)
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
