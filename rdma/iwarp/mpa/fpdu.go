package mpa

import "encoding/binary"

// Start-up frame lengths, in bytes (RFC 5044, Section 7.1.1).
const (
	HeaderLen      = 20  // before the private data
	EnhancedLen    = 4   // RFC 6581, Section 9, before the private data
	MaxPrivateData = 512 // the largest PD_Length, including EnhancedLen
)

// FPDU lengths, in bytes (RFC 5044, Sections 3 and 4.1).
const (
	LengthLen     = 2     // the ULPDU_Length field
	CRCLen        = 4     // the CRC field
	MaxTrailerLen = 7     // pad and CRC field
	MinMULPDU     = 128   // the smallest MULPDU, for any segment size
	MaxULPDU      = 64768 // maximum ULPDU to send; some peers send longer ULPDUs, up to 65535
)

// MPA revisions that this package implements.
const (
	Rev1 = 1 // RFC 5044
	Rev2 = 2 // RFC 6581
)

// NotNegotiated as an IRD or ORD means that the upper layers agree on the
// number themselves (RFC 6581, Section 9.1).
const NotNegotiated = 0x3fff

// MaxDepth is the largest IRD or ORD that can be negotiated, in RDMA Read
// Requests.
const MaxDepth = NotNegotiated - 1

// MULPDU returns the maximum ULPDU length, in bytes, that fits into one TCP
// segment with emss payload bytes, including the maximum number of Markers (RFC
// 5044, Section 4.5). For every emss it lies between MinMULPDU and MaxULPDU.
func MULPDU(emss int, markers bool) int {
	overhead := LengthLen + CRCLen + emss%4
	if markers {
		overhead += MarkerLen * ((emss + MarkerInterval - 1) / MarkerInterval)
	}
	return min(max(emss-overhead, MinMULPDU), MaxULPDU)
}

// PadLen returns the length in bytes, 0 to 3, of the pad after a ULPDU of n
// bytes: it makes the FPDU length a multiple of four (RFC 5044, Section 4.1).
func PadLen(n int) int { return -(LengthLen + n) & 3 }

// TrailerLen returns the length, in bytes, of pad and CRC field after a ULPDU
// of n bytes.
func TrailerLen(n int) int { return PadLen(n) + CRCLen }

// FPDULen returns the FPDU length, in bytes, for a ULPDU of n bytes.
func FPDULen(n int) int { return LengthLen + n + TrailerLen(n) }

// AppendLength appends the ULPDU_Length field for a ULPDU of n bytes, at most
// MaxULPDU.
func AppendLength(b []byte, n int) []byte { return binary.BigEndian.AppendUint16(b, uint16(n)) }

// ParseLength returns the ULPDU length, in bytes, for the FPDU that starts with
// b. Any value is valid here: the layer above knows its header lengths.
func ParseLength(b [LengthLen]byte) int { return int(binary.BigEndian.Uint16(b[:])) }
