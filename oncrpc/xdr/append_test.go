package xdr

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

// appendItems appends items.hex, item by item.
func appendItems(b []byte) []byte {
	b = AppendUint32(b, 42)
	b = AppendBool(b, true)
	b = AppendBool(b, false)
	b = AppendUint64(b, 1<<32+2)
	b = AppendFixed(b, []byte("abcde"))
	b = AppendOpaque(b, []byte{0xff, 0x00, 0xfe})
	b = AppendString(b, "näme")
	return AppendString(b, "")
}

func TestAppend(t *testing.T) {
	wire := wiretest.Hex(t, "testdata/items.hex")
	assert.Equal(t, wire, appendItems(nil))
	assert.Equal(t, append([]byte("in front"), wire...), appendItems([]byte("in front")))
}

func TestReadItems(t *testing.T) {
	wire := wiretest.Hex(t, "testdata/items.hex")
	r := NewReader(wire)
	assert.EqualValues(t, 42, r.Uint32())
	assert.True(t, r.Bool())
	assert.False(t, r.Bool())
	assert.EqualValues(t, 1<<32+2, r.Uint64())
	assert.Equal(t, []byte("abcde"), r.Fixed(5))
	opaque := r.Opaque(3)
	assert.Equal(t, []byte{0xff, 0x00, 0xfe}, opaque)
	assert.Equal(t, "näme", r.String(5))
	assert.Empty(t, r.String(0))
	require.NoError(t, r.Done())
	assert.Equal(t, len(wire), r.Offset())
	assert.Equal(t, 3, cap(opaque), "an append does not write into the message")
}

func TestPad(t *testing.T) {
	for n, want := range []int{0, 3, 2, 1, 0, 3} {
		assert.Equal(t, want, Pad(n), n)
		assert.Len(t, AppendFixed(nil, make([]byte, n)), n+want)
		assert.Len(t, AppendOpaque(nil, make([]byte, n)), 4+n+want)
	}
}

func TestCodecAllocatesNothing(t *testing.T) {
	wire := wiretest.Hex(t, "testdata/items.hex")
	out := make([]byte, 0, len(wire))
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		out = appendItems(out[:0])
		r := NewReader(wire)
		r.Uint32()
		r.Bool()
		r.Bool()
		r.Uint64()
		r.Fixed(5)
		r.Opaque(3)
		r.Opaque(5)
		r.Item(0)
		if r.Done() != nil {
			t.Fatal(r.Err())
		}
	}))
}
