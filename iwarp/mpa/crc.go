package mpa

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var zeros [3]byte

// UpdateCRC adds b to the CRC32c of the preceding bytes of the same FPDU, which
// is 0 at the FPDU's start. The CRC covers the ULPDU_Length field, the ULPDU
// and the pad (RFC 5044, Section 4.4).
func UpdateCRC(crc uint32, b []byte) uint32 { return updateCRC(crc, b) }

// CopyCRC copies src to dst, which must not be shorter, and returns UpdateCRC
// of the copied bytes. It reads each byte of src once, so src may change
// meanwhile.
func CopyCRC(crc uint32, dst, src []byte) uint32 { return copyCRC(crc, dst, src) }

// AppendTrailer appends the pad and the CRC field of an FPDU with a ULPDU of n
// bytes. crc covers the ULPDU_Length field and the ULPDU.
func AppendTrailer(b []byte, n int, crc uint32) []byte {
	pad := zeros[:PadLen(n)]
	b = append(b, pad...)
	// least significant byte first, unlike all other fields on the wire
	return binary.LittleEndian.AppendUint32(b, UpdateCRC(crc, pad))
}

// AppendTrailerNoCRC is AppendTrailer with CRCs off: the CRC field is present,
// and zero.
func AppendTrailerNoCRC(b []byte, n int) []byte {
	b = append(b, zeros[:PadLen(n)]...)
	return binary.LittleEndian.AppendUint32(b, 0)
}

// CheckTrailer compares the CRC of a received FPDU. crc covers the ULPDU_Length
// field and the ULPDU, and trailer is the pad and the CRC field. The error is
// ErrCRC. The content of the pad is not checked otherwise. If CRCs are off, a
// trailer must not be checked at all.
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
