package delegation

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// Words are one connection's counters, as the server sees them: LeaseWord and
// the slots. The client may change the words at any time.
type Words interface {
	// Load returns word n.
	Load(n uint32) uint64
	// CompareAndSwap stores next in word n if the word equals old, and reports
	// whether it did.
	CompareAndSwap(n uint32, old, next uint64) bool
}

// A Region is the memory that holds a connection's Words. It is registered only
// for that connection, with rdma.RemoteAtomic and no other right.
type Region struct{ memory []byte }

// NewRegion returns the region in memory. The memory must be all zeros and
// start at a multiple of 8; its length must be a multiple of 8 bytes, and at
// least two words.
func NewRegion(memory []byte) (*Region, error) {
	words := len(memory) / rdma.WordLen
	if len(memory)%rdma.WordLen != 0 || words < 2 || words > maxSlots {
		return nil, fmt.Errorf("delegation: invalid region size: %d bytes", len(memory))
	}
	if _, err := rdma.Word(memory, 0); err != nil {
		return nil, fmt.Errorf("delegation: %w", err)
	}
	return &Region{memory}, nil
}

// Load implements Words.
func (r *Region) Load(n uint32) uint64 {
	w, err := rdma.Word(r.memory, int(n)*rdma.WordLen)
	if err != nil {
		panic(err)
	}
	return w.Load()
}

// CompareAndSwap implements Words.
func (r *Region) CompareAndSwap(n uint32, old, next uint64) bool {
	w, err := rdma.Word(r.memory, int(n)*rdma.WordLen)
	if err != nil {
		panic(err)
	}
	return w.CompareAndSwap(old, next)
}
