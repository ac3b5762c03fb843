package cmpriv

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

var extensions = []struct {
	file string
	ext  Extension
}{
	{"testdata/extension-client.hex", Extension{Immediate: true, Atomics: true, Delegation: true, ImmediateRecvs: 32}},
	{"testdata/extension-server.hex", Extension{
		Immediate: true, Atomics: true, Delegation: true, ImmediateRecvs: 258,
		CounterSTag: 0x12345678, CounterTO: 0x7f0102030408, CounterSlots: 65536,
	}},
}

func TestExtensionGolden(t *testing.T) {
	msg := Message{RemoteInvalidation: true, SendSize: 4096, RecvSize: 4096}
	for _, tt := range extensions {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, tt.file)
			assert.Len(t, wire, Len+ExtensionLen)
			assert.Equal(t, wire, tt.ext.AppendTo(msg.AppendTo(nil)))
			e, ok := ParseExtension(wire)
			assert.True(t, ok)
			assert.Equal(t, tt.ext, e)
			m, ok := Parse(wire) // R8797-5-1: the message stands alone
			assert.True(t, ok)
			assert.Equal(t, msg, m)
			for n := range len(wire) { // cut at every byte
				e, ok := ParseExtension(wire[:n])
				assert.False(t, ok, n)
				assert.Zero(t, e)
			}
		})
	}
}

func TestParseExtension(t *testing.T) {
	const (
		msg  = " f6ab0e18 01 01 03 03 "
		ext  = " 6e667278 01 03 0008 00000000 0000000000000000 00000000 "
		want = 8
	)
	for _, tt := range []struct {
		name string
		wire string
		ok   bool
	}{
		{"directly behind", msg + ext, true},
		{"after another layer's words", "0080 0000" + msg + ext, true},
		{"a byte further", msg + "00" + ext, true},
		{"behind its own first bytes", msg + "6e66" + ext, true},
		{"bytes of the message taken for its start", "f6ab" + msg + "00 01 02" + ext, true},
		{"more behind", msg + ext + "00 01 02", true},
		{"unknown flags", msg + "6e667278 01 fb 0008 00000000 0000000000000000 00000000", true},
		{"nothing", "", false},
		{"no block", msg, false},
		{"no message", ext, false},
		{"before the message", ext + msg, false},
		{"behind a message of another version", "f6ab0e18 02 01 03 03" + ext, false},
		{"instead of the message", "f6ab0e18" + ext, false},
		{"another identifier", msg + "6e667279 01 03 0008 00000000 0000000000000000 00000000", false},
		{"version 0", msg + "6e667278 00 03 0008 00000000 0000000000000000 00000000", false},
		{"version 2", msg + "6e667278 02 03 0008 00000000 0000000000000000 00000000", false},
		{"version 2, then version 1", msg + "6e667278 02" + ext, false},
		{"cut short", msg + "6e667278 01 03 0008 00000000 0000000000000000 000000", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, ok := ParseExtension(wiretest.Bytes(t, tt.wire))
			assert.Equal(t, tt.ok, ok)
			if tt.ok {
				assert.Equal(t, Extension{Immediate: true, Atomics: true, ImmediateRecvs: want}, e)
			} else {
				assert.Zero(t, e)
			}
		})
	}
}

// TestExtensionFields checks that each flag has its bit, and that counts too
// large for the wire are clamped.
func TestExtensionFields(t *testing.T) {
	for want, e := range map[uint8]Extension{0: {}, 1: {Immediate: true}, 2: {Atomics: true}, 4: {Delegation: true}} {
		assert.Equal(t, want, e.AppendTo(nil)[5])
	}
	for n, want := range map[int][]byte{-1: {0, 0}, 1: {0, 1}, 65535: {255, 255}, 65536: {255, 255}} {
		e := Extension{ImmediateRecvs: n}
		assert.Equal(t, want, e.AppendTo(nil)[6:8], n)
	}
}

func TestExtensionAllocs(t *testing.T) {
	wire := wiretest.Hex(t, extensions[0].file)
	out := make([]byte, 0, ExtensionLen)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		e, _ := ParseExtension(wire)
		out = e.AppendTo(out[:0])
	}))
}

func FuzzParseExtension(f *testing.F) {
	for _, tt := range extensions {
		f.Add(wiretest.Hex(f, tt.file))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, ok := ParseExtension(b)
		if !ok {
			assert.Zero(t, e)
			return
		}
		m, ok := Parse(b)
		assert.True(t, ok)
		again, ok := ParseExtension(e.AppendTo(m.AppendTo(nil)))
		assert.True(t, ok)
		assert.Equal(t, e, again)
	})
}
