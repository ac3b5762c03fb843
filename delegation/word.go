package delegation

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// LeaseWord is the index of the word that a client adds to in order to keep its
// grants. The words after it are the slots.
const LeaseWord = 0

// A slotWord is the value of a slot's word as an integer: the generation in bits 63
// to 32, the number of opens in bits 31 to 0. In memory, the word is in the server's
// own byte order; on the wire, in network byte order (RFC 7306, Section 5.1.1).
type slotWord uint64

// makeWord returns the word with the given generation and number of opens.
func makeWord(generation, opens uint32) slotWord { return slotWord(generation)<<32 | slotWord(opens) }

// generation returns the slot's generation, which identifies a grant.
func (w slotWord) generation() uint32 { return uint32(w >> 32) }

// opens returns the number of the client's uses, as counted by the client. The
// number is a hint.
func (w slotWord) opens() uint32 { return uint32(w) }

// String returns both numbers.
func (w slotWord) String() string { return fmt.Sprintf("(%d, %d)", w.generation(), w.opens()) }

// addMask is the Add Mask for all additions to a slot's word. It prevents a
// carry out of the generation or the opens.
const addMask = 0x8000_0000_8000_0000

// An OpKind is a kind of atomic operation on a word.
type OpKind uint8

// The client's four operations; all are FetchAdd.
const (
	OpRenew    OpKind = iota // renew the lease, on LeaseWord
	OpOpen                   // add an open
	OpClose                  // subtract an open
	OpValidate               // read only
)

// Operands returns the FetchAdd's operands.
func (k OpKind) Operands() rdma.Atomic {
	switch k {
	case OpRenew:
		return rdma.Atomic{Operand: 1}
	case OpOpen:
		return rdma.Atomic{Operand: 1, OperandMask: addMask}
	case OpClose:
		return rdma.Atomic{Operand: 0xffff_ffff, OperandMask: addMask}
	case OpValidate:
		return rdma.Atomic{OperandMask: addMask}
	}
	panic(fmt.Sprintf("delegation: operation %d", k))
}
