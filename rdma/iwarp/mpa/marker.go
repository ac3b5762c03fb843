package mpa

import "encoding/binary"

// Markers are inserted at every MarkerInterval-th byte in a direction's stream,
// from the first byte of full operation on, and themselves count as stream
// bytes (RFC 5044, Sections 4.2 and 4.3):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|           reserved            |            FPDUPTR            |
//	+-------------------------------+-------------------------------+
//
// An FPDU's length is a multiple of four, so a Marker splits neither a
// ULPDU_Length field nor a CRC field. Positions are counted only within an
// interval and within an FPDU: nothing here wraps when TCP's sequence numbers
// do.
const (
	MarkerLen      = 4
	MarkerInterval = 512
)

// maxMarkers returns the maximum number of Markers before and among n other
// bytes.
func maxMarkers(n int) int {
	const between = MarkerInterval - MarkerLen
	return (n + between - 1) / between
}

// MaxMarkers returns the maximum number of Markers before and within an FPDU
// whose ULPDU has n bytes.
func MaxMarkers(n int) int { return maxMarkers(FPDULen(n)) }

// appendMarker appends a Marker that is back bytes after the start of its
// FPDU's ULPDU_Length field. back is 0 for a Marker before that field.
func appendMarker(b []byte, back int) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(uint16(back&^3)))
}

// parseMarker returns a Marker's FPDUPTR. The reserved half is not checked, and
// the two lowest bits are read as zero.
func parseMarker(m [MarkerLen]byte) int { return int(binary.BigEndian.Uint16(m[2:]) &^ 3) }

// An Inserter computes Marker positions for a sender. The zero value is at the
// start of full operation. The sender reports its output, FPDU by FPDU:
//
//	Begin ─▶ Append ─▶ Advance, by BytesToMarker at most ─▶ Append ─▶ Advance …
type Inserter struct {
	pos  int // next byte's position in the interval; 0 is a Marker's position
	back int // bytes since the FPDU's start, or 0 before its first byte
}

// Begin starts an FPDU.
func (i *Inserter) Begin() { i.back = 0 }

// Append appends to b the Marker due here, if any.
func (i *Inserter) Append(b []byte) []byte {
	if i.pos > 0 {
		return b
	}
	b = appendMarker(b, i.back)
	i.pos = MarkerLen
	if i.back > 0 { // a Marker before the FPDU does not count
		i.back += MarkerLen
	}
	return b
}

// BytesToMarker returns the number of bytes that may follow before the next Marker.
// If a Marker is due now, the bytes after it are counted.
func (i *Inserter) BytesToMarker() int { return MarkerInterval - max(i.pos, MarkerLen) }

// Advance records that n bytes other than Markers are sent, at most BytesToMarker.
func (i *Inserter) Advance(n int) {
	i.pos = (i.pos + n) % MarkerInterval
	i.back += n
}
