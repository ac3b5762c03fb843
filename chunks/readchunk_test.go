package chunks

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func readSegmentsAt(position uint32, lengths ...uint32) (segs []ReadSegment) {
	for i, n := range lengths {
		segs = append(segs, ReadSegment{position, Segment{Handle: position + uint32(i), Length: n}})
	}
	return segs
}

// TestReadChunks checks that segments with one position, anywhere in the list,
// are one chunk, in the order of the list (R8166-3.4.5-3, R8166-3.4.5-4).
func TestReadChunks(t *testing.T) {
	a, b, zero := readSegmentsAt(96, 5, 0, 7), readSegmentsAt(16, 1, 2), readSegmentsAt(0, 100)
	l := Lists{Reads: []ReadSegment{a[0], b[0], zero[0], a[1], b[1], a[2]}}
	chunks, err := l.ReadChunks(nil)
	require.NoError(t, err)
	assert.Equal(t, []ReadChunk{
		{Position: 0, Segments: zero, Length: 100},
		{Position: 16, Segments: b, Length: 3},
		{Position: 96, Segments: a, Length: 12},
	}, chunks)
}

// TestPositionMultipleOfFour checks that a position is a multiple of four
// (R8166-3.4.5-2).
func TestPositionMultipleOfFour(t *testing.T) {
	for pos := range uint32(9) {
		l := Lists{Reads: readSegmentsAt(pos, 4)}
		_, err := l.ReadChunks(nil)
		if pos%4 == 0 {
			assert.NoError(t, err, pos)
		} else {
			assert.ErrorIs(t, err, ErrPosition, pos)
		}
	}
}

func TestUnreduced(t *testing.T) {
	for _, tt := range []struct {
		name  string
		n     uint64
		reads [][]ReadSegment
		want  uint64 // 0: ErrPosition
	}{
		{"no chunks", 40, nil, 40},
		{"at the end", 40, [][]ReadSegment{readSegmentsAt(40, 8)}, 48},
		{"in the middle", 40, [][]ReadSegment{readSegmentsAt(8, 8)}, 48},
		{"with padding to add", 40, [][]ReadSegment{readSegmentsAt(8, 5)}, 48},
		{"beyond the end", 40, [][]ReadSegment{readSegmentsAt(44, 8)}, 0},
		{"far beyond the end", 40, [][]ReadSegment{readSegmentsAt(0xfffffffc, 8)}, 0},
		{"two", 40, [][]ReadSegment{readSegmentsAt(8, 5), readSegmentsAt(24, 4)}, 52},
		{"side by side", 40, [][]ReadSegment{readSegmentsAt(8, 5), readSegmentsAt(16, 4)}, 52},
		{"the second at the end", 40, [][]ReadSegment{readSegmentsAt(8, 5), readSegmentsAt(48, 4)}, 52},
		{"the second beyond the end", 40, [][]ReadSegment{readSegmentsAt(8, 5), readSegmentsAt(52, 4)}, 0},
		{"the second inside the first", 40, [][]ReadSegment{readSegmentsAt(8, 5), readSegmentsAt(12, 4)}, 0},
		{"huge", 40, [][]ReadSegment{readSegmentsAt(8, 0xffffffff, 0xffffffff)}, 40 + 2*0xffffffff + 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l Lists
			for _, s := range tt.reads {
				l.Reads = append(l.Reads, s...)
			}
			chunks, err := l.ReadChunks(nil)
			require.NoError(t, err)
			got, err := Unreduced(tt.n, chunks)
			if tt.want == 0 {
				assert.ErrorIs(t, err, ErrPosition)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

// TestWeave checks that the message is the same with padding in the chunk and
// without (R8166-3.4.5.2-2, R8166-3.4.5.2-3).
func TestWeave(t *testing.T) {
	const want = "head-one" + "ABCDE\x00\x00\x00" + "between." + "FGH\x00" + "tail"
	for _, lengths := range [][2]uint32{{5, 3}, {8, 3}, {5, 4}, {8, 4}} {
		l := Lists{Reads: append(readSegmentsAt(24, lengths[1]), readSegmentsAt(8, lengths[0])...)}
		chunks, err := l.ReadChunks(nil)
		require.NoError(t, err)
		reduced := []byte("head-one" + "between." + "tail")
		n, err := Unreduced(uint64(len(reduced)), chunks)
		require.NoError(t, err)
		whole := make([]byte, n)
		for i := range whole {
			whole[i] = 0xee
		}
		copy(whole[8:], "ABCDE\x00\x00\x00"[:lengths[0]])
		copy(whole[24:], "FGH\x00"[:lengths[1]])
		Weave(whole, reduced, chunks)
		assert.Equal(t, want, string(whole), lengths)
	}
}
