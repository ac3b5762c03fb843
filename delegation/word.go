package delegation

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// LeaseWord is the index of the word that a client adds to so as to keep its
// grants. The words behind it are the slots.
const LeaseWord = 0

// A Word is what a slot's word holds, as an integer: the generation in bits 63 to
// 32, the number of opens in bits 31 to 0. In memory it is in the server's own
// byte order, on the wire in network byte order (RFC 7306, Section 5.1.1).
type Word uint64

// MakeWord returns the word of a generation and a number of opens.
func MakeWord(generation, opens uint32) Word { return Word(generation)<<32 | Word(opens) }

// Generation returns which grant of the slot the word belongs to.
func (w Word) Generation() uint32 { return uint32(w >> 32) }

// Opens returns what the client says of its uses. It is a hint.
func (w Word) Opens() uint32 { return uint32(w) }

// String returns both numbers.
func (w Word) String() string { return fmt.Sprintf("(%d, %d)", w.Generation(), w.Opens()) }

// fields is the Add Mask of all additions to a slot's word: no carry leaves the
// generation or the opens.
const fields = 0x8000_0000_8000_0000

// An OpKind is what a client does to a word.
type OpKind uint8

// The four operations of a client; all are FetchAdd.
const (
	OpRenew    OpKind = iota // keep the lease, on LeaseWord
	OpOpen                   // one open more
	OpClose                  // one less
	OpValidate               // look
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
