package delegation

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// Words are the counters of one connection, from the server's view: LeaseWord
// and the slots. The client may change the words at any time.
type Words interface {
	// Load returns word n.
	Load(n uint32) uint64
	// CompareAndSwap stores next in word n if the word equals old, and reports
	// whether it did.
	CompareAndSwap(n uint32, old, next uint64) bool
}

// A Region is the memory that holds the Words of a connection. It is registered
// for that connection alone, with rdma.RemoteAtomic and no other right.
type Region struct{ memory []byte }

// NewRegion returns the region in memory. The memory must be all zeros and
// begin at a multiple of 8; its length must be a multiple of 8 bytes, and at
// least two words.
func NewRegion(memory []byte) (*Region, error) {
	words := len(memory) / rdma.WordLen
	if len(memory)%rdma.WordLen != 0 || words < 2 || words > MaxSlots {
		return nil, fmt.Errorf("delegation: a region of %d bytes", len(memory))
	}
	if _, err := rdma.Word(memory, 0); err != nil {
		return nil, fmt.Errorf("delegation: %w", err)
	}
	return &Region{memory}, nil
}

// Slots returns the number of words.
func (r *Region) Slots() uint32 { return uint32(len(r.memory) / rdma.WordLen) }

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
