package oncrpc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// newRecords returns a reader of records of at most limit bytes. The second
// result collects the reservations.
func newRecords(stream io.Reader, limit int) (*recordReader, *[]int) {
	reserved := new([]int)
	return &recordReader{
		br: bufio.NewReaderSize(stream, 64), max: limit,
		reserve: func(n int) error { *reserved = append(*reserved, n); return nil },
	}, reserved
}

// nextRecord returns the bytes of the next record.
func nextRecord(t *testing.T, r *recordReader) ([]byte, error) {
	t.Helper()
	t.Cleanup(func() { assert.Zero(t, buf.Default.Out()) })
	rec, err := r.readRecord()
	if err != nil {
		require.Nil(t, rec)
		return nil, err
	}
	defer rec.Release()
	return bytes.Clone(rec.B), nil
}

func TestRecordFragments(t *testing.T) {
	msg := wiretest.Hex(t, "testdata/getattr-call.hex")
	for i := range len(msg) + 1 { // two fragments, one of them may be empty
		stream := append(newFragment(false, msg[:i]), newFragment(true, msg[i:])...)
		r, _ := newRecords(bytes.NewReader(stream), len(msg))
		got, err := nextRecord(t, r)
		require.NoError(t, err)
		require.Equal(t, msg, got)
		_, err = nextRecord(t, r)
		require.Equal(t, io.EOF, err)
	}
	var stream []byte // a fragment for each byte, and empty ones
	for i := range msg {
		stream = append(stream, newFragment(false, msg[i:i+1])...)
		stream = append(stream, newFragment(false, nil)...)
	}
	stream = append(stream, newFragment(true, nil)...)
	stream = append(stream, newRecord(nil)...)
	stream = append(stream, newRecord(msg)...)
	r, reserved := newRecords(iotest.OneByteReader(bytes.NewReader(stream)), len(msg))
	for _, want := range [][]byte{msg, {}, msg} {
		got, err := nextRecord(t, r)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	assert.Empty(t, *reserved, "small records")
}

func TestRecordCutAtEveryByte(t *testing.T) {
	stream := append(newFragment(false, []byte("hello")), newFragment(true, []byte("world"))...)
	for n := range stream {
		r, _ := newRecords(bytes.NewReader(stream[:n]), 100)
		_, err := nextRecord(t, r)
		if n == 0 {
			assert.Equal(t, io.EOF, err)
			continue
		}
		assert.Equal(t, io.ErrUnexpectedEOF, err, n)
	}
}

func TestRecordTooLong(t *testing.T) {
	const limit = 100
	for _, tt := range []struct {
		name   string
		stream []byte
		ok     bool
	}{
		{"at the limit", newRecord(make([]byte, limit)), true},
		{"above the limit", newRecord(make([]byte, limit+1)), false},
		{"fragments at the limit", append(newFragment(false, make([]byte, limit)), newRecord(nil)...), true},
		{"fragments above the limit", append(newFragment(false, make([]byte, limit)), newRecord([]byte{1})...), false},
		{"longest fragment", []byte{0xff, 0xff, 0xff, 0xff}, false},
		{"longest fragment, not the last", []byte{0x7f, 0xff, 0xff, 0xff}, false},
		{"longest fragment, second", append(newFragment(false, []byte{1}), 0xff, 0xff, 0xff, 0xff), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, reserved := newRecords(bytes.NewReader(tt.stream), limit)
			_, err := nextRecord(t, r)
			if tt.ok {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, errRecordLong)
			}
			assert.Empty(t, *reserved)
		})
	}
}

// TestRecordReserve checks that memory is reserved once, before it is lent, for
// the largest possible length of the record.
func TestRecordReserve(t *testing.T) {
	const limit = 1 << 20
	large, small := make([]byte, smallRecord+1), make([]byte, smallRecord)
	for _, tt := range []struct {
		name   string
		stream []byte
		want   []int
	}{
		{"small", newRecord(small), nil},
		{"large", newRecord(large), []int{smallRecord + 1}},
		{"large, then more", append(newFragment(false, large), newRecord(large)...), []int{limit}},
		{"small, then large", append(newFragment(false, small), newRecord(large)...), []int{2*smallRecord + 1}},
		{"small fragments", append(append(newFragment(false, small), newFragment(false, []byte{1})...), newRecord(nil)...), []int{limit}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, reserved := newRecords(bytes.NewReader(tt.stream), limit)
			_, err := nextRecord(t, r)
			require.NoError(t, err)
			assert.Equal(t, tt.want, *reserved)
		})
	}
	t.Run("refused", func(t *testing.T) {
		no := errors.New("no memory")
		r, _ := newRecords(bytes.NewReader(append(newFragment(false, small), newRecord(large)...)), limit)
		r.reserve = func(int) error { return no }
		_, err := nextRecord(t, r)
		assert.Equal(t, no, err)
	})
}

// TestExtend checks that a record of many fragments is copied only a few times.
func TestExtend(t *testing.T) {
	const limit, step = 16 << 20, 8 << 10
	var b *buf.Buf
	copies, last := 0, 0
	for n := 0; n < limit; n += step {
		b = extendBuffer(b, n, limit)
		if len(b.B) != n {
			t.Fatal(len(b.B), n)
		}
		if cap(b.B) != last {
			copies, last = copies+1, cap(b.B)
		}
	}
	assert.Less(t, copies, 20)
	assert.Equal(t, limit, cap(b.B))
	b.Release()
}

func TestRecordBuffered(t *testing.T) {
	for _, tt := range []struct {
		stream []byte
		want   bool
	}{
		{newRecord([]byte("hello")), true},
		{append(newRecord([]byte("hello")), 1, 2, 3), true},
		{newRecord([]byte("hello"))[:8], false},
		{newRecord([]byte("hello"))[:3], false},
		{newFragment(false, []byte("hello")), false},
		{[]byte{0xff, 0xff, 0xff, 0xff}, false},
	} {
		r, _ := newRecords(bytes.NewReader(tt.stream), 100)
		_, err := r.br.Peek(1)
		require.NoError(t, err)
		assert.Equal(t, tt.want, r.isRecordBuffered(), "%x", tt.stream)
	}
}

// TestRecordReads checks that one read fetches several small records, and that
// the middle of a large record bypasses the read buffer.
func TestRecordReads(t *testing.T) {
	large := make([]byte, 1<<20)
	stream := bytes.Repeat(newRecord([]byte("hello")), 7)
	stream = append(stream, newRecord(large)...)
	counted := &countReader{r: bytes.NewReader(stream)}
	r, _ := newRecords(counted, 1<<20)
	r.br = bufio.NewReaderSize(counted, readBuffer)
	for range 7 {
		_, err := nextRecord(t, r)
		require.NoError(t, err)
	}
	assert.Equal(t, []int{readBuffer}, counted.asked)
	_, err := nextRecord(t, r)
	require.NoError(t, err)
	rest := len(stream) - readBuffer
	assert.Equal(t, []int{readBuffer, rest}, counted.asked)
}

// A countReader records the length of each Read.
type countReader struct {
	r     io.Reader
	asked []int
}

func (c *countReader) Read(p []byte) (int, error) {
	c.asked = append(c.asked, len(p))
	return c.r.Read(p)
}

// FuzzRecord compares the records of a stream with those of a second, simple
// reader of RFC 5531, Section 11.
func FuzzRecord(f *testing.F) {
	f.Add(append(newFragment(false, []byte("hello")), newRecord([]byte("world"))...))
	f.Add(append(newRecord(nil), newRecord(make([]byte, 300))...))
	f.Add([]byte{0x00, 0x00, 0x02, 0x00, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, stream []byte) {
		const limit = 1000
		r, _ := newRecords(bytes.NewReader(stream), limit)
		for {
			want, rest, wantErr := splitRecord(stream, limit)
			got, err := r.readRecord()
			if wantErr != nil {
				require.ErrorIs(t, err, wantErr)
				break
			}
			require.NoError(t, err)
			require.Equal(t, string(want), string(got.B))
			got.Release()
			stream = rest
		}
		require.Zero(t, buf.Default.Out())
	})
}

// splitRecord cuts the first record off a stream.
func splitRecord(stream []byte, limit int) (rec, rest []byte, err error) {
	for first := true; ; first = false {
		if len(stream) < 4 {
			if len(stream) == 0 && first {
				return nil, nil, io.EOF
			}
			return nil, nil, io.ErrUnexpectedEOF
		}
		mark := binary.BigEndian.Uint32(stream)
		n := uint64(mark & 0x7fffffff)
		stream = stream[4:]
		if uint64(len(rec))+n > uint64(limit) {
			return nil, nil, errRecordLong
		}
		if uint64(len(stream)) < n {
			return nil, nil, io.ErrUnexpectedEOF
		}
		rec, stream = append(rec, stream[:n]...), stream[n:]
		if mark>>31 == 1 {
			return rec, stream, nil
		}
	}
}

// TestOtherProtocol checks that the error names the protocol of a peer that has the wrong port.
func TestOtherProtocol(t *testing.T) {
	for begins, want := range map[string]string{
		"MPA ID Req Frame": "the peer speaks RDMA (MPA) on a port for RPC over TCP",
		"GET / HTTP/1.1":   "the peer speaks HTTP on", "\x16\x03\x01\x02": "the peer speaks TLS without", "SSH-2.0-x": "the peer speaks SSH on",
		"\x7f\xff\xff\xff": "0 bytes and a fragment of 2147483647",
	} {
		r := recordReader{br: bufio.NewReader(strings.NewReader(begins)), max: 1 << 20}
		_, err := r.readRecord()
		assert.ErrorIs(t, err, errRecordLong)
		assert.ErrorContains(t, err, want)
	}
}
