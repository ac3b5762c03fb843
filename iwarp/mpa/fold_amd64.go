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
// its instruction for CRCs of 8 octets.

const (
	foldLen = 256 // octets

	// minFold is how many octets it pays for.
	minFold = 1 << 10
)

// folds tells whether the processor has the instructions.
var folds = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

// fold returns the CRC of n times foldLen octets, one time at least, behind others
// with a CRC of crc. Neither is inverted.
//
//go:noescape
func fold(crc uint32, p *byte, n int) uint32

// updateCRC is crc32.Update for CRC32c.
func updateCRC(crc uint32, b []byte) uint32 {
	if folds && len(b) >= minFold {
		n := len(b) / foldLen
		crc = ^fold(^crc, &b[0], n)
		b = b[n*foldLen:]
	}
	return crc32.Update(crc, castagnoli, b)
}
