package chunks

import (
	"encoding/binary"
	"math"
)

// Lengths on the wire, in bytes.
const (
	segmentLen     = 16
	readSegmentLen = 4 + segmentLen
)

// A Segment is a contiguous piece of the requester's memory (RFC 8166,
// Section 3.4.3).
type Segment struct {
	Handle uint32 // the STag, or R_key
	Length uint32 // in bytes; 0 makes it an empty segment
	Offset uint64 // first byte's offset, in the requester's terms
}

// AppendTo appends s's wire form to b.
func (s Segment) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, s.Handle)
	b = binary.BigEndian.AppendUint32(b, s.Length)
	return binary.BigEndian.AppendUint64(b, s.Offset)
}

// parseSegment parses a segment at the start of b, which must be long enough.
func parseSegment(b []byte) Segment {
	return Segment{
		Handle: binary.BigEndian.Uint32(b),
		Length: binary.BigEndian.Uint32(b[4:]),
		Offset: binary.BigEndian.Uint64(b[8:]),
	}
}

// wraps reports whether the segment runs past the last 64-bit offset.
func (s Segment) wraps() bool {
	return s.Length > 0 && s.Offset > math.MaxUint64-uint64(s.Length-1)
}

// A ReadSegment is a segment with the position of its bytes in the message (RFC
// 8166, Section 3.4.5).
type ReadSegment struct {
	Position uint32 // bytes from the start of the unreduced message
	Segment
}

// AppendTo appends s's wire form to b.
func (s ReadSegment) AppendTo(b []byte) []byte {
	return s.Segment.AppendTo(binary.BigEndian.AppendUint32(b, s.Position))
}

// A Chunk is a Write chunk or a Reply chunk: memory that the responder fills
// (RFC 8166, Section 3.4.6).
type Chunk []Segment

// Length returns the total length of the segments, in bytes.
func (c Chunk) Length() uint64 {
	var n uint64 // cannot wrap: a length has 32 bits, and a list is bounded
	for i := range c {
		n += uint64(c[i].Length)
	}
	return n
}

// Fill converts the lengths that the requester offered to the lengths to return
// for n bytes: each segment is filled to its end before the next, and the
// remaining segments become empty. If n bytes do not fit, Fill returns false
// and changes nothing.
func (c Chunk) Fill(n uint64) bool {
	if n > c.Length() {
		return false
	}
	for i := range c {
		used := min(n, uint64(c[i].Length))
		c[i].Length = uint32(used)
		n -= used
	}
	return true
}

// AppendTo appends c as a counted array to b.
func (c Chunk) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(c)))
	for _, s := range c {
		b = s.AppendTo(b)
	}
	return b
}
