package mpa

import "encoding/binary"

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
