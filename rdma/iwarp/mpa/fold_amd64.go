package mpa

import (
	"hash/crc32"

	"golang.org/x/sys/cpu"
)

// A CRC is a polynomial's remainder, and bytes may be replaced by others with
// the same remainder. Therefore 256 bytes are multiplied, in pieces of 64 bits,
// by the factors that shift them by 256 bytes, and added to the next 256 bytes:
//
//	bytes  │ 256 │ 256 │ 256 │ rest │
//	          └──▶ + ──▶ + ─ state ─┐
//	                                └─ CRC over state and rest, as usual
//
// The processor computes four such products at once, several times as fast as
// its CRC instruction for 8 bytes. This leaves time to store the bytes: copied
// data is read once.

const (
	foldLen = 256 // bytes

	// minFold is the length, in bytes, from which folding pays off.
	minFold = 1 << 10
)

// canFold tells whether the processor has the instructions.
var canFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

// fold stores foldLen bytes in state. Their CRC, with an initial value of zero, equals the CRC over
// the n*foldLen bytes at p with the initial value crc. n must be at least 1. Neither CRC is
// inverted.
//
//go:noescape
func fold(state *[foldLen]byte, crc uint32, p *byte, n int)

// foldCopy copies from src to dst, and folds the copied bytes.
//
//go:noescape
func foldCopy(state *[foldLen]byte, crc uint32, dst, src *byte, n int)

// unfold computes the CRC over fold's result, 8 bytes at a time, not inverted.
//
//go:noescape
func unfold(state *[foldLen]byte) uint32

// updateCRC is crc32.Update for CRC32c.
func updateCRC(crc uint32, b []byte) uint32 {
	if canFold && len(b) >= minFold {
		var state [foldLen]byte
		n := len(b) / foldLen
		fold(&state, ^crc, &b[0], n)
		crc = ^unfold(&state)
		b = b[n*foldLen:]
	}
	return crc32.Update(crc, castagnoli, b)
}

// copyCRC copies src to dst and returns updateCRC for the copied bytes.
func copyCRC(crc uint32, dst, src []byte) uint32 {
	if canFold && len(src) >= minFold {
		var state [foldLen]byte
		n := len(src) / foldLen
		_ = dst[len(src)-1]
		foldCopy(&state, ^crc, &dst[0], &src[0], n)
		crc = ^unfold(&state)
		dst, src = dst[n*foldLen:], src[n*foldLen:]
	}
	return crc32.Update(crc, castagnoli, dst[:copy(dst, src)])
}
