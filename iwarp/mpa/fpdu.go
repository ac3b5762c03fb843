package mpa

import "encoding/binary"

// MULPDU returns the length in octets of the largest ULPDU that fits into one
// TCP segment with emss octets of payload, as many Markers as there can be
// included (RFC 5044, Section 4.5). It lies between MinMULPDU and MaxULPDU
// whatever emss is.
func MULPDU(emss int, markers bool) int {
	overhead := LengthLen + CRCLen + emss%4
	if markers {
		overhead += MarkerLen * ((emss + MarkerInterval - 1) / MarkerInterval)
	}
	return min(max(emss-overhead, MinMULPDU), MaxULPDU)
}

// PadLen returns the length in octets, 0 to 3, of the pad behind a ULPDU of n
// octets: it makes the FPDU a multiple of four (RFC 5044, Section 4.1).
func PadLen(n int) int { return -(LengthLen + n) & 3 }

// TrailerLen returns the length in octets of what follows a ULPDU of n octets
// in its FPDU: the pad and the CRC field.
func TrailerLen(n int) int { return PadLen(n) + CRCLen }

// FPDULen returns the length in octets of the FPDU around a ULPDU of n octets.
func FPDULen(n int) int { return LengthLen + n + TrailerLen(n) }

// AppendLength appends the ULPDU_Length field of a ULPDU of n octets, which
// may be no more than MaxULPDU.
func AppendLength(b []byte, n int) []byte { return binary.BigEndian.AppendUint16(b, uint16(n)) }

// ParseLength returns the length in octets of the ULPDU whose FPDU starts with
// the two octets of b. Any value is valid here: the layer above knows how long
// its headers are.
func ParseLength(b [LengthLen]byte) int { return int(binary.BigEndian.Uint16(b[:])) }
