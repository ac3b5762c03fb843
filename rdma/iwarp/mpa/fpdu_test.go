package mpa

import (
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

func TestMULPDU(t *testing.T) {
	tests := []struct{ emss, plain, marked int }{
		{1460, 1454, 1442},    // R5044-4.5-1, R5044-4.5-2
		{8960, 8954, 8882},    // R5044-4.5-1, R5044-4.5-2
		{1447, 1438, 1426},    // R5044-4.5-1, R5044-4.5-2: 3 bytes remain
		{1448, 1442, 1430},    // with TCP timestamps
		{512, 506, 502},       // R5044-4.5-1: the ceiling
		{513, 506, 498},       // R5044-4.5-1
		{65483, 64768, 64768}, // loopback, but R5044-3-4
		{1 << 30, 64768, 64768},
		{64776, 64768, 64262},
		{64774, 64766, 64258},
		{64772, 64766, 64258},
		{142, 134, 130},
		{138, 130, 128},
		{134, 128, 128}, // R5044-4.5-5
		{133, 128, 128},
		{100, 128, 128},
		{0, 128, 128},
		{-1, 128, 128},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.plain, MULPDU(tt.emss, false), "EMSS %d", tt.emss)
		assert.Equal(t, tt.marked, MULPDU(tt.emss, true), "EMSS %d", tt.emss)
	}
	for emss := 144; emss < 3000; emss++ {
		assert.LessOrEqual(t, FPDULen(MULPDU(emss, false)), emss, "fits its segment")
		n := MULPDU(emss, true)
		markers := (emss + MarkerInterval - 1) / MarkerInterval // with a Marker in the worst place
		assert.LessOrEqual(t, FPDULen(n)+markers*MarkerLen, emss, "fits its segment")
		assert.LessOrEqual(t, MaxMarkers(n), markers, "EMSS %d", emss)
	}
}

func TestLengths(t *testing.T) {
	for n := range 70 { // R5044-4.1-1
		assert.Zero(t, FPDULen(n)%4)
		assert.Less(t, PadLen(n), 4)
		assert.Equal(t, FPDULen(n), LengthLen+n+PadLen(n)+CRCLen)
		assert.LessOrEqual(t, TrailerLen(n), MaxTrailerLen)
	}
	assert.Equal(t, 2, PadLen(0))
	assert.Equal(t, 0, PadLen(14))
	assert.Equal(t, 3, PadLen(23))
	assert.Equal(t, 20, FPDULen(14))
	for _, n := range []int{0, 1, 0x1234, MaxULPDU, 65535} {
		assert.Equal(t, n, ParseLength([LengthLen]byte(AppendLength(nil, n))))
	}
}

// TestFPDU builds and checks golden FPDUs: R5044-4.1-1, R5044-4.1-2,
// R5044-4.1-3, R5044-4.4-8, R5044-4.4-9, R5044-4.4-10.
func TestFPDU(t *testing.T) {
	for _, file := range []string{
		"fpdu-siw-send.hex", "fpdu-siw-send-invalidate.hex", "fpdu-siw-write.hex",
		"fpdu-send-pad.hex", "fpdu-write-empty.hex", "fpdu-write.hex",
	} {
		t.Run(file, func(t *testing.T) {
			wire := wiretest.Hex(t, "testdata/"+file)
			n := ParseLength([LengthLen]byte(wire))
			require.Equal(t, len(wire), FPDULen(n))
			covered, trailer := wire[:LengthLen+n], wire[LengthLen+n:]

			crc := uint32(0)
			for _, part := range [][]byte{AppendLength(nil, n), covered[2:9], nil, covered[9:]} {
				crc = UpdateCRC(crc, part) // gathered
			}
			assert.Equal(t, trailer, AppendTrailer(nil, n, crc))
			assert.NoError(t, CheckTrailer(trailer, crc))

			for i := range len(wire) * 8 { // R5044-4.4-11: every bit matters
				wire[i/8] ^= 1 << (i % 8)
				assert.ErrorIs(t, CheckTrailer(trailer, UpdateCRC(0, covered)), ErrCRC, "bit %d", i)
				wire[i/8] ^= 1 << (i % 8)
			}
			for i := range CRCLen {
				assert.ErrorIs(t, CheckTrailer(trailer[:i], crc), ErrCRC)
			}
		})
	}
}

// TestFigures checks the dumps in RFC 5044, which contain Markers: R5044-4.4-9,
// R5044-4.4-10.
func TestFigures(t *testing.T) {
	for _, file := range []string{"fpdu-figure5.hex", "fpdu-figure6.hex"} {
		wire := wiretest.Hex(t, "testdata/"+file)
		covered, trailer := wire[:len(wire)-CRCLen], wire[len(wire)-CRCLen:]
		assert.NoError(t, CheckTrailer(trailer, UpdateCRC(0, covered)), file)
		n := 42 // the length field and 42 bytes need no pad
		assert.Equal(t, trailer, AppendTrailer(nil, n, UpdateCRC(0, covered)))
	}
}

// TestCRC checks iSCSI's examples, RFC 7143, Appendix A.4: R5044-4.4-1,
// R5044-4.4-9.
func TestCRC(t *testing.T) {
	fill := func(f func(i int) byte) []byte {
		b := make([]byte, 32)
		for i := range b {
			b[i] = f(i)
		}
		return b
	}
	tests := []struct {
		name string
		data []byte
		wire []byte
	}{
		{"zeroes", fill(func(int) byte { return 0 }), []byte{0xaa, 0x36, 0x91, 0x8a}},
		{"ones", fill(func(int) byte { return 0xff }), []byte{0x43, 0xab, 0xa8, 0x62}},
		{"incrementing", fill(func(i int) byte { return byte(i) }), []byte{0x4e, 0x79, 0xdd, 0x46}},
		{"decrementing", fill(func(i int) byte { return byte(31 - i) }), []byte{0x5c, 0xdb, 0x3f, 0x11}},
		{"SCSI Read", wiretest.Bytes(t, `
			01 c0 00 00  00 00 00 00  00 00 00 00  00 00 00 00
			14 00 00 00  00 00 04 00  00 00 00 14  00 00 00 18
			28 00 00 00  00 00 00 00  02 00 00 00  00 00 00 00`), []byte{0x56, 0x3a, 0x96, 0xd9}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := len(tt.data) - LengthLen // as if data began with the length field
			require.Zero(t, PadLen(n))
			assert.Equal(t, tt.wire, AppendTrailer(nil, n, UpdateCRC(0, tt.data)))
		})
	}
}

func TestTrailerWithoutCRC(t *testing.T) {
	for n := range 8 { // R5044-4.4-8: the field is present; R5044-4.1-3
		got := AppendTrailerNoCRC([]byte("x"), n)
		assert.Equal(t, append([]byte("x"), make([]byte, TrailerLen(n))...), got)
	}
	wire := wiretest.Hex(t, "testdata/fpdu-siw-nocrc.hex")
	n := ParseLength([LengthLen]byte(wire))
	assert.Equal(t, len(wire), FPDULen(n))
	assert.Equal(t, 2, PadLen(n))
}

func TestPadContentIsCovered(t *testing.T) {
	wire := wiretest.Hex(t, "testdata/fpdu-siw-nocrc.hex") // its pad is 00 01
	n := ParseLength([LengthLen]byte(wire))
	covered, trailer := wire[:LengthLen+n], wire[LengthLen+n:]
	sum := crc32.Checksum(wire[:len(wire)-CRCLen], crc32.MakeTable(crc32.Castagnoli))
	for i := range CRCLen {
		trailer[PadLen(n)+i] = byte(sum >> (8 * i))
	}
	assert.NoError(t, CheckTrailer(trailer, UpdateCRC(0, covered)), "R5044-4.1-4: what the pad holds does not matter")
	trailer[1] ^= 1
	assert.ErrorIs(t, CheckTrailer(trailer, UpdateCRC(0, covered)), ErrCRC)
}

func TestFPDUAllocs(t *testing.T) {
	header, payload, out := make([]byte, 20), make([]byte, 4096), make([]byte, 0, 32)
	n := len(header) - LengthLen + len(payload)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		crc := UpdateCRC(UpdateCRC(0, header), payload)
		out = AppendTrailer(AppendLength(out[:0], n), n, crc)
		if CheckTrailer(out[LengthLen:], crc) != nil {
			panic("own trailer")
		}
		out = AppendTrailerNoCRC(out[:0], n)
	}))
}

func FuzzFPDU(f *testing.F) {
	for _, file := range []string{"fpdu-siw-send.hex", "fpdu-send-pad.hex", "fpdu-write-empty.hex"} {
		f.Add(wiretest.Hex(f, "testdata/"+file))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		if len(wire) < LengthLen {
			return
		}
		n := ParseLength([LengthLen]byte(wire))
		if len(wire) < FPDULen(n) {
			return
		}
		covered := wire[:LengthLen+n]
		crc := UpdateCRC(0, covered)
		trailer := AppendTrailer(nil, n, crc)
		assert.NoError(t, CheckTrailer(trailer, crc))
		if CheckTrailer(wire[LengthLen+n:FPDULen(n)], crc) == nil && PadLen(n) == 0 {
			assert.Equal(t, wire[LengthLen+n:FPDULen(n)], trailer)
		}
	})
}
