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
