package cmpriv

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

var golden = []struct {
	file string
	msg  Message
}{
	{"testdata/linux-client.hex", Message{RemoteInvalidation: true, SendSize: 4096, RecvSize: 4096}},
	{"testdata/knfsd.hex", Message{SendSize: 4096, RecvSize: 4096}},
}

// TestGolden checks one layout of eight bytes for both ends (R8797-4-3,
// R8797-4-5, R8797-4-6, R8797-4-7, R8797-4-8).
func TestGolden(t *testing.T) {
	for _, tt := range golden {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, tt.file)
			assert.Equal(t, wire, tt.msg.AppendTo(nil))
			m, ok := Parse(wire)
			assert.True(t, ok)
			assert.Equal(t, tt.msg, m)
			for n := range Len { // R8797-5.2-3: content does not overrun the buffer
				m, ok := Parse(wire[:n])
				assert.False(t, ok, n)
				assert.Equal(t, Default, m, "R8797-5.1-1")
			}
		})
	}
}

// TestSizes checks sizes from 1024 to 262144 bytes (R8797-4.2-1, R8797-4.2-2).
func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		size int
		wire uint8
		back int
	}{
		{1024, 0, 1024},
		{4096, 3, 4096},
		{262144, 255, 262144},
		{4095, 2, 3072}, // never more than the size
		{0, 0, 1024},    // the least that a peer must take
		{1 << 30, 255, 262144},
	} {
		b := Message{SendSize: tt.size, RecvSize: tt.size}.AppendTo(nil)
		assert.Equal(t, tt.wire, b[6], tt.size)
		assert.Equal(t, tt.wire, b[7], tt.size)
		m, ok := Parse(b)
		assert.True(t, ok)
		assert.Equal(t, Message{SendSize: tt.back, RecvSize: tt.back}, m)
	}
}

func TestParse(t *testing.T) {
	want := Message{RemoteInvalidation: true, SendSize: 2048, RecvSize: 8192}
	for _, tt := range []struct {
		name string
		wire string
		ok   bool
	}{
		{"R8797-4-9 reserved bits are ignored", "f6ab0e18 01 ff 01 07", true},
		{"R8797-5.2-1 behind a byte", "00 f6ab0e18 01 01 01 07", true},
		{"R8797-5.2-1 after another layer's words", "0080 0000 f6ab0e18 01 01 01 07", true},
		{"R8797-5-1 followed by another layer's data", "f6ab0e18 01 01 01 07 deadbeef", true},
		{"R8797-5.2-1 behind its own first bytes", "f6ab f6ab0e18 01 01 01 07", true},
		{"R8797-5.1-1 no data", "", false},
		{"R8797-5.2-2 another identifier", "f6ab0e19 01 01 01 07", false},
		{"R8797-6-1 version 0", "f6ab0e18 00 01 01 07", false},
		{"R8797-6-1 version 2", "f6ab0e18 02 01 01 07", false},
		{"R8797-5.2-3 cut short", "00000000 f6ab0e18 01 01 01", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, ok := Parse(wiretest.Bytes(t, tt.wire))
			assert.Equal(t, tt.ok, ok)
			if tt.ok {
				assert.Equal(t, want, m)
			} else {
				assert.Equal(t, Default, m)
			}
		})
	}
	assert.Equal(t, Message{SendSize: 1024, RecvSize: 1024}, Default, "R8797-3.1-3")
}

// TestAnywhere checks that Parse finds the identifier at any offset
// (R8797-5.2-1, R8797-5-1), and that a message cut short at the end is rejected
// (R8797-5.2-3).
func TestAnywhere(t *testing.T) {
	want := Message{RemoteInvalidation: true, SendSize: 5120, RecvSize: 1024}
	wire := want.AppendTo(nil)
	for before := range 64 {
		for _, fill := range []byte{0, 0xf6, 0xab, 0xff} {
			b := append(bytes.Repeat([]byte{fill}, before), wire...)
			for range 3 {
				m, ok := Parse(b)
				assert.True(t, ok)
				assert.Equal(t, want, m)
				b = append(b, 0x18, fill)
			}
			for n := range Len {
				_, ok := Parse(b[:before+n])
				assert.False(t, ok, "%d bytes of it behind %d", n, before)
			}
		}
	}
}

func TestAllocs(t *testing.T) {
	wire := wiretest.Hex(t, golden[0].file)
	out := make([]byte, 0, Len)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		m, _ := Parse(wire)
		out = m.AppendTo(out[:0])
	}))
}

func FuzzParse(f *testing.F) {
	for _, tt := range golden {
		f.Add(wiretest.Hex(f, tt.file))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := Parse(b)
		if !ok {
			assert.Equal(t, Default, m)
			return
		}
		again, ok := Parse(m.AppendTo(nil))
		assert.True(t, ok)
		assert.Equal(t, m, again)
		for _, n := range []int{m.SendSize, m.RecvSize} {
			assert.True(t, n >= MinSize && n <= MaxSize && n%1024 == 0, n)
		}
	})
}
