package mpa

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var zeros [3]byte

// UpdateCRC adds b to crc, the CRC32c over the preceding bytes in the same
// FPDU, which is 0 at the FPDU's start. The CRC covers the ULPDU_Length field,
// the ULPDU and the pad (RFC 5044, Section 4.4).
func UpdateCRC(crc uint32, b []byte) uint32 { return updateCRC(crc, b) }

// CopyCRC copies src to dst, which must not be shorter, and returns UpdateCRC
// for the copied bytes. It reads each byte in src once, so src may change
// concurrently.
func CopyCRC(crc uint32, dst, src []byte) uint32 { return copyCRC(crc, dst, src) }

// AppendTrailer appends an FPDU's pad and CRC field, for a ULPDU of n bytes.
// crc covers the ULPDU_Length field and the ULPDU.
func AppendTrailer(b []byte, n int, crc uint32) []byte {
	pad := zeros[:PadLen(n)]
	b = append(b, pad...)
	// least significant byte first, unlike all other fields on the wire
	return binary.LittleEndian.AppendUint32(b, UpdateCRC(crc, pad))
}

// AppendTrailerNoCRC is like AppendTrailer, but with CRCs off: the CRC field is
// present, and zero.
func AppendTrailerNoCRC(b []byte, n int) []byte {
	b = append(b, zeros[:PadLen(n)]...)
	return binary.LittleEndian.AppendUint32(b, 0)
}

// CheckTrailer checks a received FPDU's CRC. crc covers the ULPDU_Length field
// and the ULPDU, and trailer is the pad and the CRC field. The error is ErrCRC.
// The pad's content is not checked otherwise. If CRCs are off, a trailer must
// not be checked at all.
func CheckTrailer(trailer []byte, crc uint32) error {
	pad := len(trailer) - CRCLen
	if pad < 0 {
		return ErrCRC
	}
	crc = UpdateCRC(crc, trailer[:pad])
	if got := binary.LittleEndian.Uint32(trailer[pad:]); got != crc {
		return fmt.Errorf("%w: %#08x, computed %#08x", ErrCRC, got, crc)
	}
	return nil
}
