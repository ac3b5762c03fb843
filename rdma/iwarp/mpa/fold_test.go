package mpa

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUpdateCRC checks that any bytes' CRC, in one piece or two, equals the
// standard library's, and that a copy's CRC does too. The copy holds these
// bytes, and changes none behind them.
func TestUpdateCRC(t *testing.T) {
	var seed [32]byte
	data := make([]byte, LengthLen+MaxULPDU)
	_, _ = rand.NewChaCha8(seed).Read(data)
	copied := make([]byte, len(data)+1)
	check := func(from, to int) {
		b := data[from:to]
		copied[len(b)] = 42
		require.Equal(t, crc32.Update(7, castagnoli, b), CopyCRC(7, copied, b), "copy of [%d:%d]", from, to)
		require.True(t, bytes.Equal(b, copied[:len(b)]), "copy of [%d:%d]", from, to)
		require.EqualValues(t, 42, copied[len(b)])
		require.Equal(t, crc32.Update(0, castagnoli, b), UpdateCRC(0, b), "[%d:%d]", from, to)
		cut := rand.IntN(len(b) + 1)
		require.Equal(t, crc32.Update(0, castagnoli, b), UpdateCRC(UpdateCRC(0, b[:cut]), b[cut:]), "[%d:%d] cut at %d", from, to, cut)
	}
	for n := range 8 << 10 {
		check(n%67, n%67+n)
	}
	for range 1000 {
		from := rand.IntN(len(data))
		check(from, from+rand.IntN(len(data)-from+1))
	}
	check(0, len(data))
}

// BenchmarkTrailer measures a whole FPDU's CRC and trailer.
func BenchmarkTrailer(b *testing.B) {
	fpdu, out := make([]byte, LengthLen+MaxULPDU), make([]byte, 0, MaxTrailerLen)
	b.SetBytes(int64(len(fpdu)))
	b.ReportAllocs()
	for b.Loop() {
		AppendTrailer(out, MaxULPDU, UpdateCRC(0, fpdu))
	}
}

// BenchmarkCopyCRC measures copying an FPDU with its CRC, from memory that is
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
