package rdmap

import (
	"encoding/binary"
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
)

// Terminate header lengths, in bytes: the control word with reserved bits, and
// the maximum.
const (
	terminateMin    = 4
	TerminateMaxLen = terminateMin + 2 + ddp.UntaggedLen + ReadRequestLen
)

// A Layout is the bit order in a Terminate header.
type Layout uint8

// The layouts. Linux siw on little-endian hosts swaps layer and type, and puts
// M, D and R at their byte's wrong end.
const (
	LayoutRFC    Layout = iota // RFC 5040, Figures 7 and 8
	LayoutSiw                  // siw's
	LayoutEither               // ambiguous; Cause is by RFC 5040, SiwCause by siw
)

// Terminate is the header of a Terminate message (RFC 5040, Section 4.8):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------+-------+---------------+-+-+-+-------------------------+
//	| Layer | Type  |     Code      |M|D|R|        Reserved         |
//	+-------+-------+---------------+-+-+-+-------------------------+
//	|  DDP Segment Length (M, D)    | DDP header (D), RDMAP header (R)
//	+-------------------------------+
type Terminate struct {
	Cause Error

	// HasLength is bit M: SegmentLen is valid.
	HasLength bool
	// SegmentLen is the length of the segment at fault, in bytes: header plus
	// payload. (siw counts only the payload.)
	SegmentLen uint16

	// DDPHeader is the header of the segment at fault, or nil. Its length is
	// ddp.TaggedLen or ddp.UntaggedLen, according to its T bit.
	DDPHeader []byte
	// RDMAPHeader is the Read Request header at fault, or nil. Its length is
	// ReadRequestLen.
	RDMAPHeader []byte

	// Layout is a received message's layout. AppendTo writes LayoutRFC.
	Layout Layout
}

// The bits in byte 2. siw has them at the other end.
const (
	flagM, siwM = 0x80, 0x01
	flagD, siwD = 0x40, 0x02
	flagR, siwR = 0x20, 0x04
)

// NewTerminate returns the message for an error that segment caused, with the
// headers that Figure 10 requires. segment is the available part of a segment
// that is length bytes long, from its first byte; it is nil if no segment is at
// fault. The result aliases segment.
func NewTerminate(cause Error, segment []byte, length int) Terminate {
	t := Terminate{Cause: cause}
	wantDDP, wantRDMAP := cause.terminateHeaders()
	if !wantDDP || len(segment) == 0 || len(segment) < ddp.HeaderLen(segment[0]) {
		return t
	}
	n := ddp.HeaderLen(segment[0])
	t.HasLength, t.SegmentLen, t.DDPHeader = true, uint16(length), segment[:n:n]
	if rest := segment[n:]; wantRDMAP && isReadRequest(segment) && len(rest) >= ReadRequestLen {
		t.RDMAPHeader = rest[:ReadRequestLen:ReadRequestLen]
	}
	return t
}

func isReadRequest(segment []byte) bool {
	return !ddp.IsTagged(segment[0]) && segment[1]&opcodeMask == uint8(OpReadRequest)
}

// AppendTo appends t's wire form to b. With a DDP header the length field is
// present even if HasLength is false, but then it is not valid.
func (t Terminate) AppendTo(b []byte) []byte {
	var flags uint8
	if t.HasLength {
		flags |= flagM
	}
	if t.DDPHeader != nil {
		flags |= flagD
	}
	if t.RDMAPHeader != nil {
		flags |= flagR
	}
	b = append(b, t.Cause.Layer<<4|t.Cause.Type, t.Cause.Code, flags, 0)
	if flags&(flagM|flagD) != 0 {
		b = binary.BigEndian.AppendUint16(b, t.SegmentLen)
	}
	b = append(b, t.DDPHeader...)
	return append(b, t.RDMAPHeader...)
}

// ParseTerminate decodes b, the complete message after the DDP header, in RFC
// 5040's layout or siw's. Bytes beyond the headers that M, D and R announce are
// ignored, since a sender may fill absent headers with zeros (RFC 5040, Section
// 7.1). The error is ErrLength.
func ParseTerminate(b []byte) (Terminate, error) {
	if len(b) < terminateMin {
		return Terminate{}, fmt.Errorf("%w: %d of %d bytes", ErrLength, len(b), terminateMin)
	}
	t := Terminate{Cause: Error{Layer: b[0] >> 4, Type: b[0] & 0x0f, Code: b[1]}}
	if isFromSiw(b) {
		siw := Terminate{Cause: swapLayerAndType(t.Cause), Layout: LayoutSiw}
		err := siw.parseHeaders(b[terminateMin:], b[2]&siwM != 0, b[2]&siwD != 0, b[2]&siwR != 0)
		if err == nil {
			return siw, nil
		}
		// the bits are reserved bits then, which are ignored
	}
	err := t.parseHeaders(b[terminateMin:], b[2]&flagM != 0, b[2]&flagD != 0, b[2]&flagR != 0)
	if err != nil {
		return Terminate{}, err
	}
	return t.guessLayout(b[2]), nil
}

// isFromSiw reports whether byte 2 has bits that only siw sets.
func isFromSiw(b []byte) bool {
	return b[2]&(flagM|flagD|flagR) == 0 && b[2]&(siwM|siwD|siwR) != 0
}

func swapLayerAndType(e Error) Error { return Error{Layer: e.Type, Type: e.Layer, Code: e.Code} }

// guessLayout determines the layout of a message without headers, which byte 2
// does not reveal: siw's interpretation is preferred if only it names a defined
// error.
func (t Terminate) guessLayout(flags uint8) Terminate {
	other := swapLayerAndType(t.Cause)
	switch {
	case flags&(flagM|flagD|flagR) != 0, other == t.Cause, !other.Defined():
	case t.Cause.Defined():
		t.Layout = LayoutEither
	default:
		t.Cause, t.Layout = other, LayoutSiw
	}
	return t
}

func (t *Terminate) parseHeaders(b []byte, m, d, r bool) error {
	t.HasLength = m
	if m || d {
		if len(b) < 2 {
			return fmt.Errorf("%w: no segment length", ErrLength)
		}
		t.SegmentLen, b = binary.BigEndian.Uint16(b), b[2:]
	}
	if d {
		if len(b) == 0 || len(b) < ddp.HeaderLen(b[0]) {
			return fmt.Errorf("%w: truncated DDP header", ErrLength)
		}
		n := ddp.HeaderLen(b[0])
		t.DDPHeader, b = b[:n:n], b[n:]
	}
	if r {
		if len(b) < ReadRequestLen {
			return fmt.Errorf("%w: truncated RDMAP header", ErrLength)
		}
		t.RDMAPHeader = b[:ReadRequestLen:ReadRequestLen]
	}
	return nil
}

// SiwCause returns the error in siw's interpretation, if Layout is
// LayoutEither. Only RFC 6581's numbers collide with siw's: they precede any
// other message, siw's follow one.
func (t Terminate) SiwCause() Error { return swapLayerAndType(t.Cause) }

// Opcode returns the opcode of the segment at fault, if the message contains
// it.
func (t Terminate) Opcode() (op Opcode, ok bool) {
	if t.DDPHeader == nil {
		return 0, false
	}
	return Opcode(t.DDPHeader[1] & opcodeMask), true
}
