package rdmatest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A regionSet holds one end's registered regions. The lock is held while bytes
// are copied, so that none are copied after a Deregister.
type regionSet struct {
	mu   sync.Mutex
	last rdma.STag
	m    map[rdma.STag]*region
}

var (
	_ rdma.Remapper = (*region)(nil)
	_ rdma.Placer   = (*region)(nil)
)

type region struct {
	set     *regionSet
	at      rdma.Remote
	mem     []byte
	access  rdma.Access
	written []byteRange
}

// A byteRange is the byte range [from, to) in a region.
type byteRange struct{ from, to uint64 }

// markWritten records s as written.
func (r *region) markWritten(s byteRange) {
	if last := len(r.written) - 1; last >= 0 && r.written[last].to == s.from {
		r.written[last].to = s.to
	} else {
		r.written = append(r.written, s)
	}
}

func (r *region) STag() rdma.STag { return r.at.STag }
func (r *region) TO() uint64      { return r.at.TO }
func (r *region) Deregister()     { r.set.removeRegion(r.at.STag) }

// Remap replaces the memory (rdma.Remapper).
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
	slices.SortFunc(r.written, func(a, b byteRange) int { return cmp.Compare(a.from, b.from) })
	whole := uint64(0)
	for _, s := range r.written {
		if s.from <= whole {
			whole = max(whole, s.to)
		}
	}
	return whole >= uint64(n)
}

// nextAddress returns an address for a new region. Its offset is not zero and differs between
// regions, so that tests detect a user that forgets to add the offset.
func (s *regionSet) nextAddress() rdma.Remote {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last += 0x100
	return rdma.Remote{STag: s.last, TO: uint64(s.last) << 32}
}

func (s *regionSet) addRegion(b []byte, access rdma.Access, at rdma.Remote) (*region, error) {
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

// removeRegion removes a region, and reports whether it was registered.
func (s *regionSet) removeRegion(stag rdma.STag) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.m[stag]
	delete(s.m, stag)
	return ok
}

func (s *regionSet) removeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m = nil
}

// withMemory calls copying with the n bytes at a remote address, if access permits. If
// n is 0, nothing is checked.
func (s *regionSet) withMemory(at rdma.Remote, n int, access rdma.Access, copying func([]byte)) error {
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
		return fmt.Errorf("%w: STag %v does not permit the access", ErrAccess, at.STag)
	case at.TO < r.at.TO || at.TO-r.at.TO > uint64(len(r.mem)) || uint64(n) > uint64(len(r.mem))-(at.TO-r.at.TO):
		return fmt.Errorf("%w: %d bytes at %#x of STag %v", ErrAccess, n, at.TO, at.STag)
	}
	off := at.TO - r.at.TO
	if access == rdma.RemoteWrite {
		r.markWritten(byteRange{off, off + uint64(n)})
	}
	copying(r.mem[off : off+uint64(n)])
	return nil
}
