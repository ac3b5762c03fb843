package mpa

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var zeros [3]byte

// UpdateCRC adds b to the CRC32c of what came before in the same FPDU, which
// is 0 at the FPDU's start. The CRC covers the ULPDU_Length field, the ULPDU and
// the pad (RFC 5044, Section 4.4).
func UpdateCRC(crc uint32, b []byte) uint32 { return updateCRC(crc, b) }

// CopyCRC copies src to dst, which is no shorter, and returns UpdateCRC of what it
// has copied: each octet of src is read once, and may change.
func CopyCRC(crc uint32, dst, src []byte) uint32 { return copyCRC(crc, dst, src) }

// AppendTrailer appends the pad and the CRC field of an FPDU whose ULPDU is of
// n octets, where crc is over the ULPDU_Length field and the ULPDU.
func AppendTrailer(b []byte, n int, crc uint32) []byte {
	pad := zeros[:PadLen(n)]
	b = append(b, pad...)
	// least significant octet first, unlike all else on the wire
	return binary.LittleEndian.AppendUint32(b, UpdateCRC(crc, pad))
}

// AppendTrailerNoCRC is AppendTrailer where CRCs are off: the field is there,
// and zero.
func AppendTrailerNoCRC(b []byte, n int) []byte {
	b = append(b, zeros[:PadLen(n)]...)
	return binary.LittleEndian.AppendUint32(b, 0)
}

// CheckTrailer compares the CRC of a received FPDU, where crc is over the
// ULPDU_Length field and the ULPDU, and trailer is the pad and the CRC field.
// The error is ErrCRC. What the pad holds does not matter otherwise. Where CRCs
// are off a trailer is not to be checked at all.
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
