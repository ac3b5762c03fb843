package chunks

import (
	"cmp"
	"fmt"
	"slices"
)

// A ReadChunk is one piece of a message that the responder pulls: the segments
// in a Read list that share a position (RFC 8166, Section 3.4.5).
type ReadChunk struct {
	Position uint32        // bytes from the start of the unreduced message
	Segments []ReadSegment // in list order; concatenated they form the piece
	Length   uint64        // total length of the segments, in bytes
}

// paddedLen returns the length with the roundup padding that follows the piece in
// the unreduced message. A requester may have put the padding into the chunk
// already (RFC 8166, Section 3.4.5.2).
func (c *ReadChunk) paddedLen() uint64 { return (c.Length + 3) &^ 3 }

// ReadChunks appends l's Read chunks to dst, by ascending position, and returns
// the extended slice. It sorts l.Reads, and the chunks alias l.Reads. The error
// is an *Error.
func (l *Lists) ReadChunks(dst []ReadChunk) ([]ReadChunk, error) {
	slices.SortStableFunc(l.Reads, func(a, b ReadSegment) int { return cmp.Compare(a.Position, b.Position) })
	for i := 0; i < len(l.Reads); {
		c := ReadChunk{Position: l.Reads[i].Position}
		if c.Position%4 != 0 {
			return dst, positionError("%w: %d is not a multiple of four", c.Position)
		}
		start := i
		for ; i < len(l.Reads) && l.Reads[i].Position == c.Position; i++ {
			c.Length += uint64(l.Reads[i].Length)
		}
		c.Segments = l.Reads[start:i]
		dst = append(dst, c)
	}
	return dst, nil
}

// Unreduced returns the length, in bytes, of the message that results from
// inserting the chunks into a reduced message with n bytes. The chunks must be
// sorted by position, and none may be at position zero. The error is an *Error
// if a position is inside an earlier chunk or beyond the message.
func Unreduced(n uint64, chunks []ReadChunk) (uint64, error) {
	var moved, end uint64 // chunk bytes so far, and the last chunk's end
	for i := range chunks {
		c := &chunks[i]
		pos := uint64(c.Position)
		if pos < end {
			return 0, positionError("%w: %d is inside the chunk before", c.Position)
		}
		if pos-moved > n {
			return 0, positionError("%w: %d is beyond the message", c.Position)
		}
		moved += c.paddedLen()
		end = pos + c.paddedLen()
	}
	return n + moved, nil
}

// Weave completes an unreduced message. whole must have the length that
// Unreduced returned and hold each chunk's bytes at its position. Weave copies
// the reduced message around them and clears their padding.
func Weave(whole, reduced []byte, chunks []ReadChunk) {
	at := 0
	for i := range chunks {
		c := &chunks[i]
		n := copy(whole[at:c.Position], reduced)
		reduced = reduced[n:]
		at = int(c.Position) + int(c.paddedLen())
		clear(whole[uint64(c.Position)+c.Length : at])
	}
	copy(whole[at:], reduced)
}

// positionError returns the error for a position. Its offset is the list's
// start, because the segments have been sorted.
func positionError(format string, position uint32) error {
	return &Error{Field: "rdma_reads", Err: fmt.Errorf(format, ErrPosition, position)}
}
