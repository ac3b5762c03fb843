package chunks

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

// newLists makes a Lists with the given content.
func newLists(reads []ReadSegment, writes []Chunk, reply Chunk, hasReply bool) *Lists {
	l := &Lists{Reads: reads, Reply: reply, HasReply: hasReply}
	for _, c := range writes {
		l.AddWrite(c)
	}
	return l
}

// R8166-4-1, R8166-4.7-1, R8166-2.3.2-1: the lists are XDR.
var golden = []struct {
	file  string
	lists *Lists
}{
	{"testdata/two-segments.hex", newLists([]ReadSegment{
		{96, Segment{0x11111111, 4096, 0x10000}},
		{96, Segment{0x11111112, 100, 0x20000}},
	}, nil, nil, false)},
	{"testdata/one-write.hex", newLists(nil, []Chunk{{{0x33333333, 65536, 0}}}, nil, false)},
	{"testdata/all-writes.hex", newLists(nil, []Chunk{
		{{0x11111111, 4096, 0x11}, {0x22222222, 4096, 0x22}, {0x33333333, 4096, 0x33}},
		{{0x44444444, 4096, 0x44}, {0x55555555, 4096, 0x55}},
		{},
	}, Chunk{{0x66666666, 4096, 0x66}, {0x77777777, 4096, 0x77}}, true)},
	{"testdata/read-chunk-call.hex", newLists([]ReadSegment{
		{108, Segment{0xccf3fb02, 262144, 0x0985739a01e3a000}},
	}, nil, nil, false)},
	{"testdata/position-zero-call.hex", newLists([]ReadSegment{
		{0, Segment{0x2577c501, 156, 0x2aced9d50b133000}},
		{0, Segment{0xa3e92601, 3868, 0x2aced9d50acb9000}},
	}, nil, nil, false)},
	{"testdata/write-chunk-call.hex", newLists(nil, []Chunk{{{0xccf3fb01, 4096, 0x0585739a083af000}}}, nil, false)},
	{"testdata/write-chunk-reply.hex", newLists(nil, []Chunk{{{0xccf3fb01, 6, 0x0585739a083af000}}}, nil, false)},
	{"testdata/reply-chunk-call.hex", newLists(nil, nil, Chunk{
		{0x3c7ec701, 124, 0x0285739a089cd800},
		{0x91ac4701, 65536, 0x0285739a7fa8c000},
		{0xa90fa701, 4, 0x0285739a089cd87c},
	}, true)},
	{"testdata/reply-chunk-reply.hex", newLists(nil, nil, Chunk{
		{0x3c7ec701, 124, 0x0285739a089cd800},
		{0x91ac4701, 472, 0x0285739a7fa8c000},
		{0xa90fa701, 0, 0x0285739a089cd87c},
	}, true)},
}

func TestGolden(t *testing.T) {
	var got Lists // reused, as by a connection
	for _, tt := range golden {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, tt.file)
			assert.Equal(t, wire, tt.lists.AppendTo(nil))
			assert.Equal(t, len(wire), tt.lists.Len())
			rest, err := got.Parse(append(wire, "rest"...))
			require.NoError(t, err)
			assert.Equal(t, "rest", string(rest))
			assertEqual(t, tt.lists, &got)
			for n := range wire { // cut at every byte
				_, err := got.Parse(wire[:n])
				assert.ErrorIs(t, err, ErrShort, n)
			}
		})
	}
}

// assertEqual compares values, not the memory behind them.
func assertEqual(t testing.TB, want, got *Lists) {
	assert.Equal(t, append([]ReadSegment{}, want.Reads...), append([]ReadSegment{}, got.Reads...))
	assert.Equal(t, want.HasReply, got.HasReply)
	assert.Equal(t, append(Chunk{}, want.Reply...), append(Chunk{}, got.Reply...))
	require.Equal(t, want.Writes(), got.Writes())
	for i := range want.Writes() {
		assert.Equal(t, append(Chunk{}, want.Write(i)...), append(Chunk{}, got.Write(i)...), i)
	}
}

func TestParseErrors(t *testing.T) {
	const hloo = "00000001 00000002 00000000 00000003 "
	for _, tt := range []struct {
		name   string
		wire   string
		field  string
		offset int
		err    error
	}{
		{"presence of a read segment", "00000002", "rdma_reads", 4, ErrPresence},
		{"presence of a write chunk", "00000000 ffffffff", "rdma_writes", 8, ErrPresence},
		{"presence of a reply chunk", "00000000 00000000 00000100", "rdma_reply", 12, ErrPresence},
		{"count of a write chunk", "00000000 00000001 ffffffff", "rdma_writes", 12, ErrCount},
		{"count of a reply chunk", "00000000 00000000 00000001 ffffffff", "rdma_reply", 16, ErrCount},
		{"count above the limit", "00000000 00000000 00000001 00000401", "rdma_reply", 16, ErrCount},
		{"count above the bytes", "00000000 00000000 00000001 00000002 " + hloo, "rdma_reply", 16, ErrShort},
		{"read segment wraps", "00000001 00000000 00000001 00000002 ffffffff ffffffff 00000000", "rdma_reads", 24, ErrWrap},
		{"reply segment wraps", "00000000 00000000 00000001 00000001 00000001 ffffffff ffffffff 00000002", "rdma_reply", 32, ErrWrap},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l Lists
			_, err := l.Parse(wiretest.Bytes(t, tt.wire))
			require.ErrorIs(t, err, tt.err)
			var e *Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.field, e.Field)
			assert.Equal(t, tt.offset, e.Offset)
			assert.ErrorContains(t, err, tt.field)
		})
	}
}

// TestLastOffset checks that a segment may end with the last offset.
func TestLastOffset(t *testing.T) {
	assert.False(t, Segment{Length: 1, Offset: math.MaxUint64}.wraps())
	assert.False(t, Segment{Length: 0, Offset: math.MaxUint64}.wraps())
	assert.True(t, Segment{Length: 2, Offset: math.MaxUint64}.wraps())
}

// TestLimits checks that lists above the limits are an error, and take no
// memory.
func TestLimits(t *testing.T) {
	read := append([]byte{0, 0, 0, 1}, make([]byte, readSegmentLen)...)
	write := []byte{0, 0, 0, 1, 0, 0, 0, 0}
	segments := make([]byte, MaxSegments*segmentLen)
	chunk := func(n uint32) []byte {
		b := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 1}, n)
		return append(b, segments[:n*segmentLen]...)
	}
	end := make([]byte, 12)
	for _, tt := range []struct {
		name string
		wire []byte
		err  error
	}{
		{"reads at the limit", append(bytes.Repeat(read, MaxSegments), end...), nil},
		{"reads above it", append(bytes.Repeat(read, MaxSegments+1), end...), ErrCount},
		{"write chunks at the limit", append(end[:4:4], append(bytes.Repeat(write, MaxWriteChunks), end...)...), nil},
		{"write chunks above it", append(end[:4:4], append(bytes.Repeat(write, MaxWriteChunks+1), end...)...), ErrCount},
		{"write segments at the limit", bytes.Join([][]byte{end[:4], chunk(MaxSegments - 1), chunk(1), end}, nil), nil},
		{"write segments above it", bytes.Join([][]byte{end[:4], chunk(MaxSegments - 1), chunk(2), end}, nil), ErrCount},
		{"reply segments at the limit", bytes.Join([][]byte{end[:8], chunk(MaxSegments)}, nil), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l Lists
			_, err := l.Parse(tt.wire)
			assert.ErrorIs(t, err, tt.err)
			assert.LessOrEqual(t, len(l.Reads), MaxSegments)
			assert.LessOrEqual(t, l.Writes(), MaxWriteChunks)
		})
	}
}

func TestHandle(t *testing.T) {
	a, b := Segment{Handle: 1, Length: 4}, Segment{Handle: 2}
	for _, tt := range []struct {
		name string
		l    *Lists
		ok   bool
	}{
		{"none", newLists(nil, nil, nil, true), false},
		{"one read", newLists([]ReadSegment{{Segment: a}}, nil, nil, false), true},
		{"one write", newLists(nil, []Chunk{{a}}, nil, false), true},
		{"one reply", newLists(nil, nil, Chunk{a}, true), true},
		{"the same in all", newLists([]ReadSegment{{Segment: a}}, []Chunk{{a}, {}, {a, a}}, Chunk{a}, true), true},
		{"another read", newLists([]ReadSegment{{Segment: a}, {Segment: b}}, nil, nil, false), false},
		{"another write", newLists(nil, []Chunk{{a}, {b}}, nil, false), false},
		{"another list", newLists([]ReadSegment{{Segment: a}}, []Chunk{{b}}, nil, false), false},
		{"another reply, empty", newLists(nil, []Chunk{{a}}, Chunk{b}, true), false},
	} {
		handle, ok := tt.l.Handle()
		assert.Equal(t, tt.ok, ok, tt.name)
		if ok {
			assert.EqualValues(t, 1, handle, tt.name)
		}
	}
}

func TestNames(t *testing.T) {
	l := newLists([]ReadSegment{{Segment: Segment{Handle: 1}}}, []Chunk{{}, {{Handle: 2}, {Handle: 3}}}, Chunk{{Handle: 4}}, true)
	for handle := range uint32(6) {
		assert.Equal(t, handle >= 1 && handle <= 4, l.Names(handle), handle)
	}
}

// TestFill checks that segments are filled in order, and that the rest become
// empty (R8166-3.4.6-3).
func TestFill(t *testing.T) {
	offered := func() Chunk { return Chunk{{1, 100, 7}, {2, 0, 8}, {3, 50, 9}, {4, 4, 10}} }
	for _, tt := range []struct {
		n    uint64
		want []uint32
	}{
		{0, []uint32{0, 0, 0, 0}},
		{1, []uint32{1, 0, 0, 0}},
		{100, []uint32{100, 0, 0, 0}},
		{101, []uint32{100, 0, 1, 0}},
		{154, []uint32{100, 0, 50, 4}},
	} {
		c := offered()
		require.True(t, c.Fill(tt.n))
		for i, n := range tt.want {
			assert.Equal(t, n, c[i].Length, "%d bytes, segment %d", tt.n, i)
			assert.Equal(t, offered()[i].Handle, c[i].Handle)
			assert.Equal(t, offered()[i].Offset, c[i].Offset)
		}
		assert.Equal(t, tt.n, c.Length())
	}
	c := offered()
	assert.False(t, c.Fill(155))
	assert.Equal(t, offered(), c, "no change")
	assert.True(t, Chunk(nil).Fill(0))
	assert.False(t, Chunk(nil).Fill(1))
}

// TestLength checks that the length is the sum, and does not wrap
// (R8166-3.4.4-2).
func TestLength(t *testing.T) {
	c := Chunk{{Length: math.MaxUint32}, {Length: math.MaxUint32}, {Length: 2}}
	assert.EqualValues(t, 2*math.MaxUint32+2, c.Length())
}

func TestAllocs(t *testing.T) {
	var l Lists
	var reads []ReadChunk
	out := make([]byte, 0, 512)
	for _, tt := range golden {
		wire := wiretest.Hex(t, tt.file)
		run := func() {
			_, _ = l.Parse(wire)
			reads, _ = l.ReadChunks(reads[:0])
			out = l.AppendTo(out[:0])
		}
		run()
		assert.Zero(t, testing.AllocsPerRun(100, run), tt.file)
	}
}
