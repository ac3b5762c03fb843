package mpa

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa/mpatest"
)

// alignments are the positions in an interval at which an FPDU can start.
const alignments = MarkerInterval / 4

// inserterAt returns an Inserter that has sent n bytes in full operation.
func inserterAt(n int) *Inserter { return &Inserter{pos: n % MarkerInterval} }

// insertMarkers returns an FPDU with an Inserter's Markers, in pieces with at most step bytes.
func insertMarkers(i *Inserter, crc bool, ulpdu []byte, step int) []byte {
	var out []byte
	put := func(b []byte) {
		for len(b) > 0 {
			out = i.Append(out)
			n := min(len(b), i.BytesToMarker(), step)
			out = append(out, b[:n]...)
			i.Advance(n)
			b = b[n:]
		}
	}
	i.Begin()
	put(AppendLength(nil, len(ulpdu)))
	put(ulpdu)
	put(zeros[:PadLen(len(ulpdu))])
	out = i.Append(out)
	sum := make([]byte, CRCLen)
	if crc {
		binary.LittleEndian.PutUint32(sum, UpdateCRC(0, out))
	}
	put(sum)
	return out
}

// TestMarkerFigures checks the stream in RFC 5044, Figures 5 and 6:
// R5044-4.2-1, R5044-4.2-2, R5044-4.3-3, R5044-4.3-5, R5044-4.3-6,
// R5044-4.4-10, R5044-7.1.2-7-1.
func TestMarkerFigures(t *testing.T) {
	figure5, figure6 := wiretest.Hex(t, "testdata/fpdu-figure5.hex"), wiretest.Hex(t, "testdata/fpdu-figure6.hex")
	var i Inserter
	assert.Equal(t, figure5, insertMarkers(&i, true, figure5[6:48], 512))
	i = Inserter{}
	assert.Len(t, insertMarkers(&i, true, make([]byte, 482), 512), 492) // "which is not shown here"
	segment := append(bytes.Clone(figure6[2:20]), figure6[24:48]...)
	assert.Equal(t, figure6, insertMarkers(&i, true, segment, 512))

	for file, want := range map[string]struct {
		pos  int
		plan []byte
	}{"figure 5": {0, figure5}, "figure 6": {492, figure6}} {
		plain := want.plan[4:]
		if file == "figure 6" {
			plain = segment
			plain = append(append([]byte{0, 42}, plain...), figure6[48:]...)
		}
		r := &Remover{pos: want.pos, markerBufs: make([][MarkerLen]byte, 1)}
		got := removeMarkers(r, want.plan, 7)
		assert.Equal(t, plain, got, file)
		assert.NoError(t, CheckTrailer(got[44:], r.CRC(got[:44])), file)
		assert.NoError(t, r.End(42), file)
		assert.Empty(t, r.markers)
	}
}

// TestMarkerFigure4 checks the FPDU in RFC 5044, Section 4.3, Figure 4:
// R5044-4.2-1, R5044-4.3-3.
func TestMarkerFigure4(t *testing.T) {
	ulpdu := []byte("0123456789abcdef")
	want := append([]byte{0x00, 0x10}, "0123456789"...)
	want = append(want, 0x00, 0x00, 0x00, 0x0c)
	want = append(want, "abcdef\x00\x00\x00\x00\x00\x00"...)
	assert.Equal(t, want, insertMarkers(inserterAt(512-12), false, ulpdu, 512))
}

// TestInserterEverywhere checks that an FPDU with every length at every
// alignment follows the RFC: R5044-4.3-2, R5044-4.3-3, R5044-4.3-5,
// R5044-4.3-7, R5044-4.3-8, R5044-4.4-10, R5044-4.2-2, R5044-4.2-4.
func TestInserterEverywhere(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	data := make([]byte, 2000)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	for k := range alignments {
		for n := k % 11; n < 1100; n += 11 {
			crc, step := n%2 == 0, 1+random.IntN(600)
			s := mpatest.Stream{Markers: true, CRC: crc, At: 4 * k}
			i := inserterAt(4 * k)
			want := s.Frame(data[:n])
			got := insertMarkers(i, crc, data[:n], step)
			require.Equal(t, want, got, "%d bytes at %d", n, 4*k)
			require.Equal(t, s.At%MarkerInterval, i.pos)
			require.LessOrEqual(t, len(got), FPDULen(n)+MarkerLen*MaxMarkers(n))
		}
	}
}

// TestLongestMarked checks that the longest FPDU's Marker pointers still fit.
func TestLongestMarked(t *testing.T) {
	for k := 0; k < alignments; k += 9 {
		s := mpatest.Stream{Markers: true, CRC: true, At: 4 * k}
		ulpdu := make([]byte, MaxULPDU)
		wire := s.Frame(ulpdu)
		require.Equal(t, wire, insertMarkers(inserterAt(4*k), true, ulpdu, 512))
		r := &Remover{pos: 4 * k, markerBufs: make([][MarkerLen]byte, 1)}
		require.Len(t, removeMarkers(r, wire, 9000), FPDULen(MaxULPDU))
		require.NoError(t, r.End(MaxULPDU))
	}
}

// removeMarkers removes the Markers from a stream that arrives in segments with at most step bytes,
// and returns the rest.
func removeMarkers(r *Remover, wire []byte, step int) []byte {
	var got []byte
	for k := 0; len(wire) > 0; k++ {
		// Like a receiver: into a payload's place, and a little more.
		a, b := make([]byte, 1+k*37%700), make([]byte, k*11%300)
		n, came := min(len(wire), 1+k*13%step), 0
		for _, dst := range r.Scatter(a, b) {
			came += copy(dst, wire[came:n])
		}
		wire = wire[came:]
		m := r.Took(came)
		got = append(got, append(a, b...)[:m]...)
	}
	return got
}

// mixedFPDUs returns FPDUs with many lengths, with Markers from an alignment on, and without.
func mixedFPDUs(alignment int, lengths []byte) (wire, plain []byte, sizes []int) {
	s := mpatest.Stream{Markers: true, CRC: true, At: alignment}
	for i, n := range lengths {
		ulpdu := bytes.Repeat([]byte{byte(i + 1)}, int(n)*int(n)/16)
		wire = append(wire, s.Frame(ulpdu)...)
		sizes = append(sizes, len(ulpdu))
		plain = append(AppendLength(plain, len(ulpdu)), ulpdu...)
		plain = append(plain, make([]byte, TrailerLen(len(ulpdu)))...)
	}
	return wire, plain, sizes
}

// checkRemoved compares a Remover's output with the stream without Markers,
// except the CRCs, which it verifies.
func checkRemoved(t testing.TB, r *Remover, got, plain []byte, sizes []int) {
	require.Len(t, got, len(plain))
	for _, n := range sizes {
		size := FPDULen(n)
		end := size - CRCLen
		require.Equal(t, plain[:end], got[:end]) // R5044-4.3-10
		require.NoError(t, CheckTrailer(got[end:size], r.CRC(got[:end])))
		require.NoError(t, r.Check(n))
		require.NoError(t, r.End(n))
		got, plain = got[size:], plain[size:]
	}
	require.Empty(t, r.markers)
}

// TestRemoverEverywhere checks Markers at every alignment, in every kind of
// segment: R5044-4.3-5, R5044-4.3-9, R5044-4.3-10, R5044-4.4-10. Positions wrap
// when 32-bit sequence numbers do (R5044-4.3-4).
func TestRemoverEverywhere(t *testing.T) {
	lengths := []byte{0, 4, 90, 1, 130, 16, 91, 255, 17, 2, 89, 0, 0, 64}
	for k := range alignments {
		wire, plain, sizes := mixedFPDUs(4*k, lengths)
		start := []uint64{0, 1<<32 - 2000, 1<<64 - 2000}[k%3]
		for _, step := range []int{[]int{20_000, 1, 100, 3}[k%4], 517} {
			r := &Remover{pos: 4 * k, markerBufs: make([][MarkerLen]byte, 1), received: start, start: start}
			checkRemoved(t, r, removeMarkers(r, wire, step), plain, sizes)
		}
	}
}

// TestMarkerDisagrees checks that any Marker that does not point at the start
// is an error; reserved bits are ignored: R5044-4.2-3, R5044-4.2-4,
// R5044-5.2-2, R5044-8-1, R5044-8-3-1.
func TestMarkerDisagrees(t *testing.T) {
	const n = 1200
	for _, first := range []int{0, 4, 12, 500, 508} {
		s := mpatest.Stream{Markers: true, At: first}
		wire := s.Frame(make([]byte, n))
		for at := -first & 511; at < len(wire); at += MarkerInterval {
			for bit := range 32 {
				bad := bytes.Clone(wire)
				bad[at+bit/8] ^= 1 << (bit % 8)
				r := &Remover{pos: first, markerBufs: make([][MarkerLen]byte, 1)}
				removeMarkers(r, bad, 100)
				reserved, low := bit < 16, bit/8 == 3 && bit%8 < 2
				if reserved || low {
					assert.NoError(t, r.Check(n))
					assert.NoError(t, r.End(n))
					continue
				}
				assert.ErrorIs(t, r.Check(n), ErrFPDUStart, "bit %d", bit)
				assert.ErrorIs(t, r.End(n), ErrFPDUStart)
			}
		}
	}
}

// TestMarkerOfAnother checks a Marker that points at the preceding FPDU's
// start, or at no FPDU.
func TestMarkerOfAnother(t *testing.T) {
	s := mpatest.Stream{Markers: true}
	one := s.Frame(make([]byte, 400))
	r := NewRemover()
	removeMarkers(r, append(one, s.Frame(make([]byte, 400))...), 100)
	require.NoError(t, r.End(396)) // a length that leads to a wrong place
	require.ErrorIs(t, r.Check(400), ErrFPDUStart)
}

func TestMarkerAllocs(t *testing.T) {
	r, a, b := NewRemover(), make([]byte, 16<<10), make([]byte, 256)
	var i Inserter
	out := make([]byte, 0, 8)
	once := func() {
		for _, dst := range r.Scatter(a, b) {
			if len(dst) == MarkerLen {
				clear(dst)
			}
		}
		r.Took(len(a))
		r.markers = r.markers[:0]
		i.Begin()
		out = i.Append(out[:0])
		i.Advance(i.BytesToMarker())
	}
	once()
	assert.Zero(t, testing.AllocsPerRun(100, once))
}

// FuzzRemover checks that any FPDUs with Markers, at any alignment and in any
// segments, equal the FPDUs without Markers.
func FuzzRemover(f *testing.F) {
	f.Add(uint8(0), uint16(1), []byte{26, 88, 4})
	f.Add(uint8(123), uint16(517), []byte{0, 0, 0, 255, 1})
	f.Add(uint8(127), uint16(3), []byte{90, 90, 90, 90})
	f.Fuzz(func(t *testing.T, alignment uint8, step uint16, lengths []byte) {
		first := 4 * (int(alignment) % alignments)
		wire, plain, sizes := mixedFPDUs(first, lengths[:min(len(lengths), 50)])
		r := &Remover{pos: first, markerBufs: make([][MarkerLen]byte, 1)}
		checkRemoved(t, r, removeMarkers(r, wire, 1+int(step)), plain, sizes)
	})
}
