package mpa

import "testing"

// BenchmarkTrailer computes the CRC of a whole FPDU and appends it.
func BenchmarkTrailer(b *testing.B) {
	fpdu, out := make([]byte, LengthLen+MaxULPDU), make([]byte, 0, MaxTrailerLen)
	b.SetBytes(int64(len(fpdu)))
	b.ReportAllocs()
	for b.Loop() {
		AppendTrailer(out, MaxULPDU, UpdateCRC(0, fpdu))
	}
}

// BenchmarkCopyCRC copies an FPDU and computes its CRC, from memory that is in no cache.
func BenchmarkCopyCRC(b *testing.B) {
	from, to := make([]byte, 256<<20), make([]byte, LengthLen+MaxULPDU)
	for i := range from { // pages of their own
		from[i] = byte(i)
	}
	b.SetBytes(int64(len(to)))
	b.ReportAllocs()
	at := 0
	for b.Loop() {
		CopyCRC(0, to, from[at:][:len(to)])
		if at += len(to); at+len(to) > len(from) {
			at = 0
		}
	}
}
