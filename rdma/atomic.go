package rdma

import (
	"context"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// AllBits is the mask for an atomic operation on all 64 bits.
const AllBits = ^uint64(0)

// WordLen is the length of an atomic operation's word, in bytes.
const WordLen = 8

// An Atomic holds an atomic operation's operands, in the terms of RFC 7306,
// Section 5.2.1. The word is an integer in the peer's processor byte order;
// operands and result are Go integers, whatever the peer's byte order.
type Atomic struct {
	// Operand is the Add Data in a FetchAdd, or the Swap Data in a CmpSwap.
	Operand uint64
	// OperandMask is the Add Mask in a FetchAdd: the top bit in each field,
	// beyond which carries do not propagate. 0 means one 64-bit field. In a
	// CmpSwap it is the Swap Mask: the bits that are exchanged.
	OperandMask uint64
	// Compare and CompareMask are a CmpSwap's: the bits of the mask must be
	// the same in Compare and in the word. A mask of 0 always matches.
	Compare     uint64
	CompareMask uint64
}

// FetchAdd returns the word's new value after a FetchAdd (Section 5.1.1).
func (a Atomic) FetchAdd(word uint64) uint64 {
	tops := a.OperandMask
	sum := word&^tops + a.Operand&^tops // a carry stays in the top bit
	return sum ^ (word^a.Operand)&tops
}

// CompareSwap returns the word's new value after a CmpSwap (Section 5.1.2).
func (a Atomic) CompareSwap(word uint64) uint64 {
	if (a.Compare^word)&a.CompareMask != 0 {
		return word
	}
	return word&^a.OperandMask | a.Operand&a.OperandMask
}

// Do applies op, FetchAdd or CmpSwap, to a word, and returns the previous
// value.
func (a Atomic) Do(op Op, word *atomic.Uint64) (original uint64) {
	for {
		original = word.Load()
		next := a.FetchAdd(original)
		if op == OpCompareSwap {
			next = a.CompareSwap(original)
		}
		if word.CompareAndSwap(original, next) {
			return original
		}
	}
}

// Word returns the word that starts off bytes into memory, for atomic access by
// this process. This module's providers execute peers' atomic operations with
// the same processor instructions, so operations from both sides are atomic
// with respect to each other; a peer's RDMA Writes and Reads that touch the
// word are not atomic. The address must be 64-bit aligned, as it is for a slice
// from make whose length is a multiple of 8.
func Word(memory []byte, off int) (*atomic.Uint64, error) {
	if off < 0 || off > len(memory)-WordLen {
		return nil, fmt.Errorf("rdma: no word at %d of %d bytes", off, len(memory))
	}
	p := unsafe.Pointer(&memory[off])
	if uintptr(p)%WordLen != 0 {
		return nil, fmt.Errorf("rdma: the word at %d is not 64-bit aligned", off)
	}
	return (*atomic.Uint64)(p), nil
}

// ProbeAtomics determines whether c's peer supports atomic operations: it adds
// 0 to the peer's word at to (RFC 7306, Section 1.1), and waits for the
// response. A peer without support terminates the connection, so all work on
// the connection is lost; the error is then ErrUnsupportedOp. Upper layers
// should preferably negotiate support in their own protocol.
func ProbeAtomics(ctx context.Context, c Conn, to Remote) error {
	done := make(completionChan, 1)
	if err := c.Post(WR{Op: OpFetchAdd, Remote: to, Done: done}); err != nil {
		return err
	}
	select {
	case got := <-done:
		return got.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A completionChan receives one completion.
type completionChan chan Completion

func (f completionChan) Complete(c Completion) { f <- c }
