package mpa

import "encoding/binary"

// Markers stand at every MarkerInterval-th octet of a direction's stream, from
// the first octet of full operation on, and count as octets of it themselves
// (RFC 5044, Sections 4.2 and 4.3):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|           reserved            |            FPDUPTR            |
//	+-------------------------------+-------------------------------+
//
// FPDUs are multiples of four octets, so a Marker cuts neither an
// ULPDU_Length field nor a CRC field in two. Positions are counted within an
// interval and within an FPDU only: nothing here wraps when TCP's sequence
// numbers do.
const (
	MarkerLen      = 4
	MarkerInterval = 512
)

// maxMarkers returns how many Markers at most stand in front of and among n other
// octets.
func maxMarkers(n int) int {
	const between = MarkerInterval - MarkerLen
	return (n + between - 1) / between
}

// MaxMarkers returns how many Markers at most stand in front of and within the
// FPDU around a ULPDU of n octets.
func MaxMarkers(n int) int { return maxMarkers(FPDULen(n)) }

// appendMarker appends the Marker that stands back octets behind the start of
// its FPDU's ULPDU_Length field, or 0 where it stands in front of it.
func appendMarker(b []byte, back int) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(uint16(back&^3)))
}

// parseMarker returns a Marker's FPDUPTR. The reserved half is not checked, and
// the two lowest bits are taken as zero.
func parseMarker(m [MarkerLen]byte) int { return int(binary.BigEndian.Uint16(m[2:]) &^ 3) }

// An Inserter tells a sender where the Markers go. The zero value is at the start
// of full operation. The sender says what it sends, FPDU by FPDU:
//
//	Begin ─▶ Append ─▶ Advance, by Room at most ─▶ Append ─▶ Advance …
type Inserter struct {
	pos  int // in the interval, of the next octet: 0 is where a Marker goes
	back int // octets since the FPDU's start, or 0 in front of it
}

// Begin starts an FPDU.
func (i *Inserter) Begin() { i.back = 0 }

// Append appends to b the Marker that goes here, or nothing where none does.
func (i *Inserter) Append(b []byte) []byte {
	if i.pos > 0 {
		return b
	}
	b = appendMarker(b, i.back)
	i.pos = MarkerLen
	if i.back > 0 { // one in front of the FPDU is behind its start for nobody
		i.back += MarkerLen
	}
	return b
}

// Room returns how many octets may follow before the next Marker, behind one
// that goes here.
func (i *Inserter) Room() int { return MarkerInterval - max(i.pos, MarkerLen) }

// Advance notes that n octets other than Markers are sent, at most Room.
func (i *Inserter) Advance(n int) {
	i.pos = (i.pos + n) % MarkerInterval
	i.back += n
}
