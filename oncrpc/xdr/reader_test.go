package xdr

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

func TestReaderErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		wire string
		read func(r *Reader)
		want error
	}{
		{"boolean 2", "00000002", func(r *Reader) { r.Bool() }, ErrValue},
		{"length above limit", "00000004 01020304", func(r *Reader) { r.Opaque(3) }, ErrLong},
		{"length above limit, data absent", "ffffffff", func(r *Reader) { r.Opaque(400) }, ErrLong},
		{"length above input", "00000005 01020304", func(r *Reader) { r.Opaque(5) }, ErrShort},
		{"largest length", "ffffffff 01020304", func(r *Reader) { r.Opaque(math.MaxInt) }, ErrShort},
		{"a limit below 0 allows no bytes", "00000001 01000000", func(r *Reader) { r.Opaque(-1) }, ErrLong},
		{"padding cut", "00000002 0102", func(r *Reader) { r.String(2) }, ErrShort},
		{"fixed, negative", "01020304", func(r *Reader) { r.Fixed(-1) }, ErrShort},
		{"fixed, largest", "01020304", func(r *Reader) { r.Fixed(math.MaxInt) }, ErrShort},
		{"item above limit", "00000004 01020304", func(r *Reader) { r.Item(3) }, ErrLong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(wiretest.Bytes(t, tt.wire))
			tt.read(&r)
			assert.ErrorIs(t, r.Err(), tt.want)
			off, first := r.Offset(), r.Err()
			assert.Zero(t, r.Uint32())
			assert.Zero(t, r.Uint64())
			assert.Nil(t, r.Fixed(0))
			r.Fail(errors.New("second"))
			assert.Equal(t, first, r.Err(), "the first error stays")
			assert.Equal(t, first, r.Done())
			assert.Equal(t, off, r.Offset(), "no read after an error")
		})
	}
}

func TestReaderPaddingIsIgnored(t *testing.T) {
	r := NewReader(wiretest.Bytes(t, "00000001 61ffffff"))
	assert.Equal(t, "a", r.String(1))
	assert.NoError(t, r.Done())
}

func TestReaderTrailing(t *testing.T) {
	r := NewReader(make([]byte, 5))
	r.Uint32()
	assert.NoError(t, r.Err())
	assert.ErrorIs(t, r.Done(), ErrTrailing)
}

func TestReaderCutAtEveryByte(t *testing.T) {
	wire := wiretest.Hex(t, "testdata/items.hex")
	for n := range wire {
		r := NewReader(wire[:n])
		r.Uint32()
		r.Bool()
		r.Bool()
		r.Uint64()
		r.Fixed(5)
		r.Opaque(3)
		_ = r.String(5)
		_ = r.String(0)
		assert.ErrorIs(t, r.Done(), ErrShort, n)
		assert.LessOrEqual(t, r.Offset(), n)
	}
}

func TestReaderFail(t *testing.T) {
	r := NewReader(make([]byte, 8))
	mine := errors.New("mine")
	r.Fail(mine)
	assert.Zero(t, r.Uint32())
	assert.ErrorIs(t, r.Done(), mine)
}

// readWrite3 reads the arguments of an NFSv3 WRITE.
func readWrite3(r *Reader) (fh []byte, count uint32, data []byte) {
	fh = r.Opaque(64)
	r.Uint64()
	count = r.Uint32()
	r.Uint32()
	return fh, count, r.Item(1 << 20)
}

func TestItem(t *testing.T) {
	wire := wiretest.Hex(t, "testdata/write3args.hex")
	data := make([]byte, 262144)
	data[0], data[262143] = 1, 2

	t.Run("R8166-3.4.4.1-1 moved", func(t *testing.T) {
		r := NewReader(wire)
		r.SetItem(len(wire), data)
		fh, count, got := readWrite3(&r)
		require.NoError(t, r.Done())
		assert.Len(t, fh, 20)
		assert.EqualValues(t, 262144, count)
		assert.Equal(t, data, got)
		assert.Same(t, &data[0], &got[0], "not copied")
	})
	t.Run("in the stream", func(t *testing.T) {
		r := NewReader(append(wire[:len(wire):len(wire)], data...))
		_, _, got := readWrite3(&r)
		require.NoError(t, r.Done())
		assert.Equal(t, data, got)
	})
	t.Run("never read", func(t *testing.T) {
		r := NewReader(wire)
		r.SetItem(len(wire), data)
		r.Fixed(len(wire))
		assert.ErrorIs(t, r.Done(), ErrItem)
	})
	for _, pos := range []int{0, 4, 20, 41, len(wire) - 4, len(wire) + 4} {
		r := NewReader(append(wire[:len(wire):len(wire)], data...))
		r.SetItem(pos, data)
		readWrite3(&r)
		assert.ErrorIs(t, r.Done(), ErrItem, "position %d", pos)
	}
}

// TestItemPadding checks that the length in the stream counts the data, whether
// the padding was moved with them or not (R8166-3.4.5.2-2). The next item
// follows the length at once (R8166-3.4.4.4-2).
func TestItemPadding(t *testing.T) {
	wire := wiretest.Bytes(t, "00000005 0000002a")
	for n, ok := range map[int]bool{4: false, 5: true, 6: false, 7: false, 8: true, 9: false, 0: false} {
		r := NewReader(wire)
		r.SetItem(4, []byte("abcdefghi")[:n])
		data := r.Item(5)
		if !ok {
			assert.ErrorIs(t, r.Done(), ErrItem, n)
			assert.Nil(t, data)
			continue
		}
		assert.Equal(t, "abcde", string(data))
		assert.Equal(t, 5, cap(data))
		assert.EqualValues(t, 42, r.Uint32())
		assert.NoError(t, r.Done())
	}
	r := NewReader(wiretest.Bytes(t, "00000000"))
	r.SetItem(4, nil)
	assert.Empty(t, r.Item(5))
	assert.NoError(t, r.Done(), "an empty item may be moved too")
}

// TestSetPlaces checks that restored items must be at places that the type
// allows, and must have the length in the stream (R8166-6.1-2).
func TestSetPlaces(t *testing.T) {
	wire := wiretest.Bytes(t, "00000005 6162636465000000 0000002a 00000003 66676800")
	for _, tt := range []struct {
		name   string
		places []Place
		ok     bool
	}{
		{"none", nil, true},
		{"one", []Place{{4, 5}}, true},
		{"the other", []Place{{20, 3}}, true},
		{"both", []Place{{4, 5}, {20, 3}}, true},
		{"both with padding", []Place{{4, 8}, {20, 4}}, true},
		{"shorter", []Place{{4, 4}, {20, 3}}, false},
		{"longer", []Place{{4, 5}, {20, 5}}, false},
		{"less than its padding", []Place{{4, 7}, {20, 3}}, false},
		{"another's", []Place{{4, 5}, {12, 4}, {20, 3}}, false},
		{"in front of the length", []Place{{0, 5}, {20, 3}}, false},
		{"within", []Place{{8, 1}, {20, 3}}, false},
		{"behind all", []Place{{20, 3}, {24, 0}}, false},
	} {
		r := NewReader(wire)
		r.SetPlaces(tt.places)
		first, word, second := r.Item(8), r.Uint32(), r.Item(8)
		if !tt.ok {
			assert.ErrorIs(t, r.Done(), ErrItem, tt.name)
			continue
		}
		require.NoError(t, r.Done(), tt.name)
		assert.Equal(t, "abcde", string(first))
		assert.EqualValues(t, 42, word)
		assert.Equal(t, "fgh", string(second))
	}
	r := NewReader(wire)
	r.SetPlaces([]Place{{4, 5}})
	r.Opaque(8)
	assert.ErrorIs(t, r.Done(), ErrItem, "an item that may not be placed")
}

// TestSetMoved checks separate data of an item in results, whose place only the
// program knows.
func TestSetMoved(t *testing.T) {
	wire := wiretest.Bytes(t, "00000007 00000005 0000002a")
	read := func(r *Reader) []byte {
		r.Uint32()
		data := r.Item(8)
		r.Uint32()
		return data
	}
	r := NewReader(wire)
	r.SetMoved([]byte("abcde"))
	assert.Equal(t, "abcde", string(read(&r)))
	assert.NoError(t, r.Done())

	for _, other := range []string{"", "abcd", "abcdef", "abcdefghi"} {
		r = NewReader(wire)
		r.SetMoved([]byte(other))
		read(&r)
		assert.ErrorIs(t, r.Done(), ErrItem, other)
	}

	for _, moved := range []string{"", "abc"} { // results without an item
		r = NewReader(wire)
		r.SetMoved([]byte(moved))
		r.Fixed(len(wire))
		assert.Equal(t, moved != "", errors.Is(r.Done(), ErrItem), moved)
	}
}

// FuzzReader reads items as script says, with an item moved to any place.
func FuzzReader(f *testing.F) {
	items := wiretest.Hex(f, "testdata/items.hex")
	f.Add(items, []byte{0, 2, 2, 1, 3, 5, 4, 3, 5, 5, 4, 0}, -1, []byte(nil))
	write := wiretest.Hex(f, "testdata/write3args.hex")
	f.Add(write, []byte{4, 64, 1, 0, 0, 6, 255}, len(write), make([]byte, 255))
	f.Fuzz(func(t *testing.T, wire, script []byte, pos int, item []byte) {
		r := NewReader(wire)
		if pos >= 0 {
			r.SetItem(pos, item)
		}
		for len(script) >= 2 {
			op, arg := script[0], int(script[1])
			script = script[2:]
			before, failed := r.Offset(), r.Err() != nil
			var got []byte
			switch op % 7 {
			case 0:
				r.Uint32()
			case 1:
				r.Uint64()
			case 2:
				r.Bool()
			case 3:
				got = r.Fixed(arg)
			case 4:
				got = r.Opaque(arg)
			case 5:
				got = []byte(r.String(arg))
			case 6:
				got = r.Item(arg)
			}
			if len(got) > arg {
				t.Fatalf("%d bytes, limit %d", len(got), arg)
			}
			if r.Offset() < before || r.Offset() > len(wire) {
				t.Fatalf("offset %d after %d of %d", r.Offset(), before, len(wire))
			}
			if failed && (len(got) > 0 || r.Err() == nil || r.Offset() != before) {
				t.Fatal("continued after an error")
			}
		}
		if r.Done() == nil && r.Offset() != len(wire) {
			t.Fatal("done before the end")
		}
	})
}

// FuzzOpaque checks that appended data are read back.
func FuzzOpaque(f *testing.F) {
	f.Add([]byte("abcde"), uint32(7), true)
	f.Fuzz(func(t *testing.T, data []byte, n uint32, b bool) {
		wire := AppendOpaque(AppendBool(AppendUint32(nil, n), b), data)
		wire = AppendString(AppendFixed(wire, data), string(data))
		r := NewReader(wire)
		assert.Equal(t, n, r.Uint32())
		assert.Equal(t, b, r.Bool())
		assert.Equal(t, string(data), string(r.Opaque(len(data))))
		assert.Equal(t, string(data), string(r.Fixed(len(data))))
		assert.Equal(t, string(data), r.String(len(data)))
		assert.NoError(t, r.Done())
	})
}

// TestRest checks that a look at the rest reads nothing.
func TestRest(t *testing.T) {
	r := NewReader([]byte{0, 0, 0, 1, 0, 0, 0, 2})
	r.Uint32()
	assert.Equal(t, []byte{0, 0, 0, 2}, r.Rest())
	assert.Equal(t, uint32(2), r.Uint32())
	assert.Empty(t, r.Rest())
}
