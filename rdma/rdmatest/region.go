package rdmatest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// regions are the registered regions of one end of a connection. The lock is
// held while bytes are copied, so that none move after a Deregister.
type regions struct {
	mu   sync.Mutex
	last rdma.STag
	m    map[rdma.STag]*region
}

var (
	_ rdma.Remapper = (*region)(nil)
	_ rdma.Placer   = (*region)(nil)
)

type region struct {
	set    *regions
	at     rdma.Remote
	mem    []byte
	access rdma.Access
	placed []span
}

// A span is a contiguous range of bytes of a region.
type span struct{ from, to uint64 }

// write notes that the bytes of s are written.
func (r *region) write(s span) {
	if last := len(r.placed) - 1; last >= 0 && r.placed[last].to == s.from {
		r.placed[last].to = s.to
	} else {
		r.placed = append(r.placed, s)
	}
}

func (r *region) STag() rdma.STag { return r.at.STag }
func (r *region) TO() uint64      { return r.at.TO }
func (r *region) Deregister()     { r.set.invalidate(r.at.STag) }

// Remap exchanges the memory (rdma.Remapper).
func (r *region) Remap(b []byte) {
	r.set.mu.Lock()
	defer r.set.mu.Unlock()
	if len(b) != len(r.mem) {
		panic(fmt.Sprintf("rdmatest: %d bytes in place of %d", len(b), len(r.mem)))
	}
	r.mem = b
}

// Placed reports whether the first n bytes were written (rdma.Placer).
func (r *region) Placed(n int) bool {
	r.set.mu.Lock()
	defer r.set.mu.Unlock()
	slices.SortFunc(r.placed, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	whole := uint64(0)
	for _, s := range r.placed {
		if s.from <= whole {
			whole = max(whole, s.to)
		}
	}
	return whole >= uint64(n)
}

// next returns the address for a region. Its offset is not zero and differs
// between regions, so that tests detect a user that forgets to add the offset.
func (s *regions) next() rdma.Remote {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last += 0x100
	return rdma.Remote{STag: s.last, TO: uint64(s.last) << 32}
}

func (s *regions) register(b []byte, access rdma.Access, at rdma.Remote) (*region, error) {
	if uint64(len(b)) > math.MaxUint32 {
		return nil, fmt.Errorf("rdmatest: region of %d bytes", len(b))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[at.STag] != nil {
		return nil, fmt.Errorf("rdmatest: STag %v is in use", at.STag)
	}
	r := &region{set: s, at: at, mem: b, access: access}
	if s.m == nil {
		s.m = make(map[rdma.STag]*region)
	}
	s.m[at.STag] = r
	return r, nil
}

// invalidate forgets a region, and reports whether it was registered.
func (s *regions) invalidate(stag rdma.STag) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.m[stag]
	delete(s.m, stag)
	return ok
}

func (s *regions) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m = nil
}

// use calls copying with the n bytes at a remote address, if access permits. If
// n is 0, nothing is checked.
func (s *regions) use(at rdma.Remote, n int, access rdma.Access, copying func([]byte)) error {
	if n == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.m[at.STag]
	switch {
	case r == nil:
		return fmt.Errorf("%w: unknown STag %v", ErrAccess, at.STag)
	case r.access&access == 0:
		return fmt.Errorf("%w: STag %v lacks the right", ErrAccess, at.STag)
	case at.TO < r.at.TO || at.TO-r.at.TO > uint64(len(r.mem)) || uint64(n) > uint64(len(r.mem))-(at.TO-r.at.TO):
		return fmt.Errorf("%w: %d bytes at %#x of STag %v", ErrAccess, n, at.TO, at.STag)
	}
	off := at.TO - r.at.TO
	if access == rdma.RemoteWrite {
		r.write(span{off, off + uint64(n)})
	}
	copying(r.mem[off : off+uint64(n)])
	return nil
}
