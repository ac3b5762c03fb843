package rdmap

import (
	"encoding/binary"
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// RFC 7306 header lengths, in bytes; each header is a complete message. Section
// 4 gives the Atomic Response 32; Figure 6 and Appendix A.2 have these 12.
const (
	AtomicRequestLen  = 52
	AtomicResponseLen = 12
	ImmediateLen      = 8
)

// The Atomic Operation Codes (RFC 7306, Section 5.2.1, Figure 5). 1 is reserved:
// it was Swap in a draft.
const (
	aopFetchAdd = 0x0
	aopCmpSwap  = 0x2
	aopMask     = 0x0000000f // the other 28 bits are reserved
)

// AtomicRequest is the Atomic Operation Request header (RFC 7306, Section
// 5.2.1, Figure 4):
//
//	| reserved(28) AOpCode(4) | identifier | STag | TO |
//	| 4                       | 4          | 4    | 8  |
//	| Add or Swap Data | Add or Swap Mask | Compare Data | Compare Mask |
//	| 8                | 8                | 8            | 8            |
type AtomicRequest struct {
	Op   rdma.Op   // OpFetchAdd or OpCompareSwap
	ID   uint32    // chosen by the requester, repeated in the response
	STag rdma.STag // the responder's buffer
	TO   uint64
	rdma.Atomic
}

// AppendTo appends r's wire form to b. In a FetchAdd, the unused compare fields
// have the values that the RFC requires.
func (r AtomicRequest) AppendTo(b []byte) []byte {
	code := uint32(aopCmpSwap)
	if r.Op == rdma.OpFetchAdd {
		code, r.Compare, r.CompareMask = aopFetchAdd, 0, rdma.AllBits
	}
	b = binary.BigEndian.AppendUint32(b, code)
	b = binary.BigEndian.AppendUint32(b, r.ID)
	b = binary.BigEndian.AppendUint32(b, uint32(r.STag))
	b = binary.BigEndian.AppendUint64(b, r.TO)
	b = binary.BigEndian.AppendUint64(b, r.Operand)
	b = binary.BigEndian.AppendUint64(b, r.OperandMask)
	b = binary.BigEndian.AppendUint64(b, r.Compare)
	return binary.BigEndian.AppendUint64(b, r.CompareMask)
}

// ParseAtomicRequest decodes b, the complete message after the DDP header. The
// reserved bits are not checked, and a FetchAdd's compare fields are dropped.
// The error is ErrLength, or ErrOpcode for an operation that RFC 7306 does not
// define.
func ParseAtomicRequest(b []byte) (AtomicRequest, error) {
	if len(b) != AtomicRequestLen {
		return AtomicRequest{}, fmt.Errorf("%w: %d bytes, not %d", ErrLength, len(b), AtomicRequestLen)
	}
	r := AtomicRequest{
		ID:   binary.BigEndian.Uint32(b[4:]),
		STag: rdma.STag(binary.BigEndian.Uint32(b[8:])),
		TO:   binary.BigEndian.Uint64(b[12:]),
		Atomic: rdma.Atomic{
			Operand:     binary.BigEndian.Uint64(b[20:]),
			OperandMask: binary.BigEndian.Uint64(b[28:]),
		},
	}
	switch binary.BigEndian.Uint32(b) & aopMask {
	case aopFetchAdd:
		r.Op = rdma.OpFetchAdd
	case aopCmpSwap:
		r.Op = rdma.OpCompareSwap
		r.Compare, r.CompareMask = binary.BigEndian.Uint64(b[36:]), binary.BigEndian.Uint64(b[44:])
	default:
		return AtomicRequest{}, ErrOpcode
	}
	return r, nil
}

// A Target is the buffer that a responder found for an Atomic Request's STag.
type Target struct {
	TO     uint64 // its first byte's tagged offset
	Len    uint64 // in bytes
	Atomic bool   // the peer may perform atomic operations in it
}

// Check reports whether r names a word within its target (RFC 5040, Section
// 7.2). The error is ErrAccess, ErrTOWrap or ErrBounds. The caller must check
// that the word's address is 64-bit aligned; the error for an unaligned address
// is ErrStream (RFC 7306, Section 8.2).
func (r AtomicRequest) Check(t Target) error {
	if !t.Atomic {
		return ErrAccess
	}
	return checkRange(t.TO, t.Len, r.TO, rdma.WordLen)
}

// AtomicResponse is the Atomic Operation Response header (RFC 7306, Section
// 5.2.2, Figure 6).
type AtomicResponse struct {
	ID       uint32 // the request's
	Original uint64 // the word's previous content
}

// AppendTo appends r's wire form to b.
func (r AtomicResponse) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.ID)
	return binary.BigEndian.AppendUint64(b, r.Original)
}

// ParseAtomicResponse decodes b, the complete message after the DDP header. The
// error is ErrLength.
func ParseAtomicResponse(b []byte) (AtomicResponse, error) {
	if len(b) != AtomicResponseLen {
		return AtomicResponse{}, fmt.Errorf("%w: %d bytes, not %d", ErrLength, len(b), AtomicResponseLen)
	}
	return AtomicResponse{ID: binary.BigEndian.Uint32(b), Original: binary.BigEndian.Uint64(b[4:])}, nil
}
