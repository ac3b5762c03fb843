package mpa

import (
	"hash/crc32"

	"golang.org/x/sys/cpu"
)

// A CRC is the remainder of a polynomial, and octets may be replaced by others that
// have the same. So 256 octets are multiplied, in pieces of 64 bits, by what it takes
// to bring them 256 octets further, and added to those that are there:
//
//	octets │ 256 │ 256 │ 256 │ rest │
//	          └──▶ + ──▶ + ─ state ─┐
//	                                └─ CRC of state and rest, as usual
//
// The processor does four such products at once, which is several times as fast as
// its instruction for CRCs of 8 octets. There is time to store the octets besides:
// what is copied is read once.

const (
	foldLen = 256 // octets

	// minFold is how many octets it pays for.
	minFold = 1 << 10
)

// folds tells whether the processor has the instructions.
var folds = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

// fold puts into state the foldLen octets whose CRC, behind none, is that of n times
// foldLen octets at p, one time at least, behind others with a CRC of crc. Neither is
// inverted.
//
//go:noescape
func fold(state *[foldLen]byte, crc uint32, p *byte, n int)

// foldCopy is fold of what it copies from src to dst.
//
//go:noescape
func foldCopy(state *[foldLen]byte, crc uint32, dst, src *byte, n int)

// unfold returns the CRC of what fold has made, 8 octets at a time, not inverted.
//
//go:noescape
func unfold(state *[foldLen]byte) uint32

// updateCRC is crc32.Update for CRC32c.
func updateCRC(crc uint32, b []byte) uint32 {
	if folds && len(b) >= minFold {
		var state [foldLen]byte
		n := len(b) / foldLen
		fold(&state, ^crc, &b[0], n)
		crc = ^unfold(&state)
		b = b[n*foldLen:]
	}
	return crc32.Update(crc, castagnoli, b)
}

// copyCRC copies src to dst, and is updateCRC of what it has copied.
func copyCRC(crc uint32, dst, src []byte) uint32 {
	if folds && len(src) >= minFold {
		var state [foldLen]byte
		n := len(src) / foldLen
		_ = dst[len(src)-1]
		foldCopy(&state, ^crc, &dst[0], &src[0], n)
		crc = ^unfold(&state)
		dst, src = dst[n*foldLen:], src[n*foldLen:]
	}
	return crc32.Update(crc, castagnoli, dst[:copy(dst, src)])
}
