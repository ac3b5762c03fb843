package mpa

import "testing"

// BenchmarkTrailer measures the CRC and trailer of a whole FPDU.
func BenchmarkTrailer(b *testing.B) {
	fpdu, out := make([]byte, LengthLen+MaxULPDU), make([]byte, 0, MaxTrailerLen)
	b.SetBytes(int64(len(fpdu)))
	b.ReportAllocs()
	for b.Loop() {
		AppendTrailer(out, MaxULPDU, UpdateCRC(0, fpdu))
	}
}

// BenchmarkCopyCRC measures a copy of an FPDU with its CRC, from memory that is
// in no cache.
func BenchmarkCopyCRC(b *testing.B) {
	from, to := make([]byte, 256<<20), make([]byte, LengthLen+MaxULPDU)
	for i := range from { // allocate real pages
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
