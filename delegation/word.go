package delegation

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// LeaseWord is the index of the word that a client adds to in order to keep its
// grants. The words after LeaseWord are the slots.
const LeaseWord = 0

// A Word is the value of a slot's word as an integer: the generation in bits 63
// to 32, the number of opens in bits 31 to 0. In memory, the word is in the
// server's own byte order; on the wire, in network byte order (RFC 7306,
// Section 5.1.1).
type Word uint64

// MakeWord returns the word with a generation and a number of opens.
func MakeWord(generation, opens uint32) Word { return Word(generation)<<32 | Word(opens) }

// Generation returns the generation of the slot, which identifies a grant.
func (w Word) Generation() uint32 { return uint32(w >> 32) }

// Opens returns the number of the client's uses, as counted by the client. The
// number is a hint.
func (w Word) Opens() uint32 { return uint32(w) }

// String returns both numbers.
func (w Word) String() string { return fmt.Sprintf("(%d, %d)", w.Generation(), w.Opens()) }

// fields is the Add Mask of all additions to a slot's word. The mask prevents a
// carry out of the generation or the opens.
const fields = 0x8000_0000_8000_0000

// An OpKind is a kind of atomic operation on a word.
type OpKind uint8

// The four operations of a client; all are FetchAdd.
const (
	OpRenew    OpKind = iota // renew the lease, on LeaseWord
	OpOpen                   // add an open
	OpClose                  // subtract an open
	OpValidate               // read only
)

// Operands returns the operands of the FetchAdd.
func (k OpKind) Operands() rdma.Atomic {
	switch k {
	case OpRenew:
		return rdma.Atomic{Operand: 1}
	case OpOpen:
		return rdma.Atomic{Operand: 1, OperandMask: fields}
	case OpClose:
		return rdma.Atomic{Operand: 0xffff_ffff, OperandMask: fields}
	case OpValidate:
		return rdma.Atomic{OperandMask: fields}
	}
	panic(fmt.Sprintf("delegation: operation %d", k))
}
