package nfs4

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// CompoundArgs are the COMPOUND arguments, up to the first operation (RFC 8881,
// Section 16.2). N operations follow, each as its number and its arguments.
type CompoundArgs struct {
	Tag   []byte // at most OpaqueLimit bytes; the server returns it; not necessarily text
	Minor uint32
	N     uint32
}

// AppendTo appends a's wire form to b.
func (a *CompoundArgs) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint32(xdr.AppendOpaque(b, a.Tag), a.Minor), a.N)
}

// Decode reads a. A longer tag is an error: replies would need memory for it
// that transports do not account for.
func (a *CompoundArgs) Decode(r *xdr.Reader) {
	a.Tag, a.Minor, a.N = r.Opaque(OpaqueLimit), r.Uint32(), r.Uint32()
}

// CompoundRes are the COMPOUND results, up to the first operation's. N results
// follow, each with its operation number.
type CompoundRes struct {
	Status Status // the last operation's
	Tag    []byte
	N      uint32
}

// AppendTo appends s's wire form to b.
func (s *CompoundRes) AppendTo(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendOpaque(xdr.AppendUint32(b, uint32(s.Status)), s.Tag), s.N)
}

// Decode reads s.
func (s *CompoundRes) Decode(r *xdr.Reader) {
	s.Status, s.Tag, s.N = Status(r.Uint32()), r.Opaque(unbounded), r.Uint32()
}

// Patch sets the status and the number of results in a CompoundRes that was
// appended earlier with the same tag. res begins with that CompoundRes. A
// server knows both only after the last operation.
func (s *CompoundRes) Patch(res []byte) {
	binary.BigEndian.PutUint32(res, uint32(s.Status))
	binary.BigEndian.PutUint32(res[CompoundResLen(len(s.Tag))-4:], s.N)
}

// CompoundResLen returns the length in bytes of a CompoundRes whose tag has
// tagLen bytes.
func CompoundResLen(tagLen int) int { return 4 + 4 + tagLen + xdr.Pad(tagLen) + 4 }

// AppendOp appends operation op with arguments or results m to b.
func AppendOp(b []byte, op Op, m Message) []byte {
	return m.AppendTo(xdr.AppendUint32(b, uint32(op)))
}
