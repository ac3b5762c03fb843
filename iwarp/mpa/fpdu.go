package mpa

import "encoding/binary"

// Lengths of a start-up frame, in bytes (RFC 5044, Section 7.1.1).
const (
	HeaderLen      = 20  // before the private data
	EnhancedLen    = 4   // header of RFC 6581, Section 9, before the private data
	MaxPrivateData = 512 // the largest PD_Length, including EnhancedLen
)

// Lengths of an FPDU, in bytes (RFC 5044, Sections 3 and 4.1).
const (
	LengthLen     = 2     // the ULPDU_Length field
	CRCLen        = 4     // the CRC field
	MaxTrailerLen = 7     // pad and CRC field
	MinMULPDU     = 128   // the smallest MULPDU, for any segment size
	MaxULPDU      = 64768 // the longest ULPDU to send; some peers send longer ULPDUs, up to 65535
)

// Revisions of MPA that this package speaks.
const (
	Rev1 = 1 // RFC 5044
	Rev2 = 2 // RFC 6581
)

// NotNegotiated as an IRD or ORD says that the upper layers agree on the number
// themselves (RFC 6581, Section 9.1).
const NotNegotiated = 0x3fff

// MaxDepth is the largest IRD or ORD that can be negotiated, in RDMA Read
// Requests.
const MaxDepth = NotNegotiated - 1

// MULPDU returns the length in bytes of the largest ULPDU that fits into one
// TCP segment with emss bytes of payload, including the maximum number of
// Markers (RFC 5044, Section 4.5). For every emss it lies between MinMULPDU and
// MaxULPDU.
func MULPDU(emss int, markers bool) int {
	overhead := LengthLen + CRCLen + emss%4
	if markers {
		overhead += MarkerLen * ((emss + MarkerInterval - 1) / MarkerInterval)
	}
	return min(max(emss-overhead, MinMULPDU), MaxULPDU)
}

// PadLen returns the length in bytes, 0 to 3, of the pad behind a ULPDU of n
// bytes: it makes the length of the FPDU a multiple of four (RFC 5044, Section
// 4.1).
func PadLen(n int) int { return -(LengthLen + n) & 3 }

// TrailerLen returns the length in bytes of the pad and the CRC field behind a
// ULPDU of n bytes.
func TrailerLen(n int) int { return PadLen(n) + CRCLen }

// FPDULen returns the length in bytes of the FPDU with a ULPDU of n bytes.
func FPDULen(n int) int { return LengthLen + n + TrailerLen(n) }

// AppendLength appends the ULPDU_Length field of a ULPDU of n bytes, at most
// MaxULPDU.
func AppendLength(b []byte, n int) []byte { return binary.BigEndian.AppendUint16(b, uint16(n)) }

// ParseLength returns the length in bytes of the ULPDU whose FPDU starts with
// b. Any value is valid here: the layer above knows the lengths of its headers.
func ParseLength(b [LengthLen]byte) int { return int(binary.BigEndian.Uint16(b[:])) }
