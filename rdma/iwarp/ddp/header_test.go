package ddp

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

// The golden headers hold in both directions: R5041-4.1-8, R5041-4.1-10,
// R5041-4.2-1 and R5041-4.2-2.
var taggedHeaders = []struct {
	file string
	hdr  Tagged
}{
	{"tagged-write.hex", Tagged{Last: true, RsvdULP: 0x40, STag: 0x22639a00, TO: 0x55b87f7bd730}},
	{"tagged-read-response.hex", Tagged{Last: true, RsvdULP: 0x42, STag: 0xaa4c7e00, TO: 0x55b04a3e2730}},
	{"tagged-not-last.hex", Tagged{RsvdULP: 0x42, STag: 0xfeba8a01, TO: 0xffff88807e0c9b38}},
	{"tagged-second.hex", Tagged{Last: true, RsvdULP: 0x40, STag: 0x12345678, TO: 17870}},
}

// R5041-4.1-8, R5041-4.1-10, R5041-4.3-1, R5041-4.3-2
var untaggedHeaders = []struct {
	file string
	hdr  Untagged
}{
	{"untagged-send.hex", Untagged{Last: true, RsvdULP: 0x43, QN: 0, MSN: 1}}, // R5041-4.3-6, R5041-4.3-9
	{"untagged-invalidate.hex", Untagged{Last: true, RsvdULP: 0x44, RsvdULP4: 0x21fec601, MSN: 2}},
	{"untagged-read-request.hex", Untagged{Last: true, RsvdULP: 0x41, QN: 1, MSN: 1}},
	{"untagged-not-last.hex", Untagged{RsvdULP: 0x43, MSN: 7}},
	{"untagged-second.hex", Untagged{Last: true, RsvdULP: 0x43, MSN: 7, MO: 1482}},
	{"untagged-terminate.hex", Untagged{Last: true, RsvdULP: 0x47, QN: 2, MSN: 1}},
}

func TestTagged(t *testing.T) {
	for _, tt := range taggedHeaders {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, "testdata/"+tt.file)
			require.True(t, IsTagged(wire[0])) // R5041-4.1-1
			assert.Equal(t, TaggedLen, HeaderLen(wire[0]))
			assert.Equal(t, wire, tt.hdr.AppendTo(nil))
			for n := range TaggedLen { // truncated at every byte
				_, _, err := ParseTagged(wire[:n])
				assert.ErrorIs(t, err, ErrShort, n)
			}
			wire[0] |= 0x3c // R5041-4.1-9
			hdr, payload, err := ParseTagged(append(wire, "data"...))
			require.NoError(t, err)
			assert.Equal(t, tt.hdr, hdr) // R5041-4.2-3, R5041-4.2-7
			assert.Equal(t, "data", string(payload))
		})
	}
}

func TestUntagged(t *testing.T) {
	for _, tt := range untaggedHeaders {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, "testdata/"+tt.file)
			require.False(t, IsTagged(wire[0])) // R5041-4.1-2
			assert.Equal(t, UntaggedLen, HeaderLen(wire[0]))
			assert.Equal(t, wire, tt.hdr.AppendTo(nil))
			for n := range UntaggedLen { // truncated at every byte
				_, _, err := ParseUntagged(wire[:n])
				assert.ErrorIs(t, err, ErrShort, n)
			}
			wire[0] |= 0x3c // R5041-4.1-9
			hdr, payload, err := ParseUntagged(append(wire, "data"...))
			require.NoError(t, err)
			assert.Equal(t, tt.hdr, hdr) // R5041-5.4-3
			assert.Equal(t, "data", string(payload))
		})
	}
}

func TestFieldsAreWhole(t *testing.T) {
	tagged := Tagged{RsvdULP: 0xff, STag: 0xfffefdfc, TO: 0xfffefdfcfbfaf9f8}
	got, _, err := ParseTagged(tagged.AppendTo(nil))
	require.NoError(t, err)
	assert.Equal(t, tagged, got)
	untagged := Untagged{RsvdULP: 0xff, RsvdULP4: 0xfefdfcfb, QN: 0xf1f2f3f4, MSN: 0xe1e2e3e4, MO: 0xd1d2d3d4}
	hdr, _, err := ParseUntagged(untagged.AppendTo(nil))
	require.NoError(t, err)
	assert.Equal(t, untagged, hdr)
}

func TestVersion(t *testing.T) {
	for _, dv := range []uint8{0, 2, 3} { // R5041-4.1-11
		wire := wiretest.Hex(t, "testdata/tagged-write.hex")
		wire[0] = wire[0]&^versionMask | dv
		_, _, err := ParseTagged(wire)
		assert.ErrorIs(t, err, ErrTaggedVersion)
		wire = wiretest.Hex(t, "testdata/untagged-send.hex")
		wire[0] = wire[0]&^versionMask | dv
		_, _, err = ParseUntagged(wire)
		assert.ErrorIs(t, err, ErrUntaggedVersion)
	}
}

// TestErrorNumbers checks the table in RFC 5041, Section 7.2: R5041-7.2-1.
func TestErrorNumbers(t *testing.T) {
	tests := []struct {
		err        Error
		kind, code uint8
		name       string
	}{
		{ErrCatastrophic, 0, 0, "DDP local catastrophic error"},
		{ErrInvalidSTag, 1, 0, "DDP tagged buffer error: invalid STag"},
		{ErrBounds, 1, 1, "DDP tagged buffer error: base or bounds violation"},
		{ErrSTagStream, 1, 2, "DDP tagged buffer error: STag not associated with DDP stream"},
		{ErrTOWrap, 1, 3, "DDP tagged buffer error: TO wrap"},
		{ErrTaggedVersion, 1, 4, "DDP tagged buffer error: invalid DDP version"},
		{ErrInvalidQN, 2, 1, "DDP untagged buffer error: invalid QN"},
		{ErrNoBuffer, 2, 2, "DDP untagged buffer error: invalid MSN, no buffer available"},
		{ErrMSNRange, 2, 3, "DDP untagged buffer error: invalid MSN, out of range"},
		{ErrInvalidMO, 2, 4, "DDP untagged buffer error: invalid MO"},
		{ErrTooLong, 2, 5, "DDP untagged buffer error: message too long for available buffer"},
		{ErrUntaggedVersion, 2, 6, "DDP untagged buffer error: invalid DDP version"},
	}
	seen := map[Error]bool{}
	for _, tt := range tests {
		assert.Equal(t, Error{tt.kind, tt.code}, tt.err)
		assert.Equal(t, tt.name, tt.err.Error())
		seen[tt.err] = true
	}
	for kind := range uint8(16) {
		for code := range uint8(16) {
			e := Error{kind, code}
			assert.Equal(t, seen[e] || kind == TypeCatastrophic, e.Defined(), "%v", e)
			assert.Equal(t, e.Defined(), !strings.Contains(e.Error(), ", code"))
		}
	}
}

func TestHeaderAllocs(t *testing.T) {
	tagged := wiretest.Hex(t, "testdata/tagged-write.hex")
	untagged := wiretest.Hex(t, "testdata/untagged-send.hex")
	out := make([]byte, 0, 64)
	var queue Queue
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		h, _, _ := ParseTagged(tagged)
		u, _, _ := ParseUntagged(untagged)
		out = u.AppendTo(h.AppendTo(out[:0]))
		_ = CheckTagged(Buffer{TO: h.TO, Len: 8, Writable: true}, h, 9) // errors do not allocate either
		_ = queue.Place(u, 10, 5)
	}))
}

func FuzzHeader(f *testing.F) {
	for _, tt := range taggedHeaders {
		f.Add(wiretest.Hex(f, "testdata/"+tt.file))
	}
	for _, tt := range untaggedHeaders {
		f.Add(wiretest.Hex(f, "testdata/"+tt.file))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		if h, payload, err := ParseTagged(wire); err == nil {
			again, rest, err := ParseTagged(append(h.AppendTo(nil), payload...))
			require.NoError(t, err)
			assert.Equal(t, h, again)
			assert.Equal(t, payload, rest)
		}
		if h, payload, err := ParseUntagged(wire); err == nil {
			again, rest, err := ParseUntagged(append(h.AppendTo(nil), payload...))
			require.NoError(t, err)
			assert.Equal(t, h, again)
			assert.Equal(t, payload, rest)
		}
	})
}
