package chunks

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

func FuzzParse(f *testing.F) {
	for _, tt := range golden {
		f.Add(wiretest.Hex(f, tt.file))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var l, again Lists
		rest, err := l.Parse(b)
		if err != nil {
			var e *Error
			require.ErrorAs(t, err, &e)
			assert.True(t, e.Offset >= 0 && e.Offset <= len(b))
			return
		}
		// The lists have one wire form each, so bytes compare.
		wire := l.AppendTo(nil)
		assert.Equal(t, b[:len(b)-len(rest)], wire)
		assert.Equal(t, l.Len(), len(wire))
		_, err = again.Parse(wire)
		require.NoError(t, err)
		assertEqual(t, &l, &again)
	})
}

func FuzzWeave(f *testing.F) {
	for _, tt := range golden {
		f.Add(wiretest.Hex(f, tt.file), uint16(120))
	}
	f.Fuzz(func(t *testing.T, b []byte, n uint16) {
		var l Lists
		if _, err := l.Parse(b); err != nil {
			return
		}
		chunks, err := l.ReadChunks(nil)
		if err != nil || len(chunks) > 0 && chunks[0].Position == 0 {
			return
		}
		total, err := Unreduced(uint64(n), chunks)
		if err != nil || total > 1<<20 {
			return
		}
		// Each byte is part of the message, of a chunk, or of padding.
		reduced, whole := make([]byte, n), make([]byte, total)
		for i := range reduced {
			reduced[i] = 'm'
		}
		for i := range whole {
			whole[i] = 'c'
		}
		Weave(whole, reduced, chunks)
		count := make(map[byte]uint64)
		for _, c := range whole {
			count[c]++
		}
		var data, padding uint64
		for i := range chunks {
			data += chunks[i].Length
			padding += chunks[i].paddedLen() - chunks[i].Length
		}
		assert.Equal(t, uint64(n), count['m'])
		assert.Equal(t, data, count['c'])
		assert.Equal(t, padding, count[0])
	})
}
