package rdmap

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// goldenSegment returns a golden file's bytes.
func goldenSegment(t testing.TB, file string) []byte {
	t.Helper()
	return wiretest.Hex(t, "testdata/"+file)
}

// terminateCases covers all combinations of M, D and R: R5040-4.8-1,
// R5040-4.8-2, R5040-4.8-3, R5040-4.8-13, R5040-4.8-15, R5040-4.8-16,
// R5040-4.8-17, R5040-4.8-19.
func terminateCases(t testing.TB) []struct {
	name string
	wire []byte
	msg  Terminate
	text string
} {
	write := goldenSegment(t, "write-siw.hex")
	send := goldenSegment(t, "send.hex")
	read := goldenSegment(t, "read-request.hex")
	return []struct {
		name string
		wire []byte
		msg  Terminate
		text string
	}{
		{
			"MPA CRC", goldenSegment(t, "terminate-crc.hex")[ddp.UntaggedLen:],
			Terminate{Cause: Error{2, 0, 2}},
			"MPA error: CRC mismatch",
		},
		{
			"opcode", goldenSegment(t, "terminate-opcode.hex")[ddp.UntaggedLen:],
			Terminate{
				Cause: ErrOpcode, HasLength: true, SegmentLen: 18,
				DDPHeader: ddp.Untagged{Last: true, RsvdULP: 0x4c, MSN: 1}.AppendTo(nil),
			},
			"RDMAP remote operation error: unexpected opcode, opcode 12 on queue 0, MSN 1, MO 0, length 18",
		},
		{
			"tagged", slices.Concat([]byte{0x11, 0x00, 0xc0, 0, 0, 114}, write),
			Terminate{Cause: Error{1, 1, 0}, HasLength: true, SegmentLen: 114, DDPHeader: write},
			"DDP tagged buffer error: invalid STag, RDMA Write to STag 0x22639a00, TO 0x55b87f7bd730, length 114",
		},
		{
			"untagged", slices.Concat([]byte{0x12, 0x05, 0xc0, 0, 0x20, 0}, send),
			Terminate{Cause: Error{1, 2, 5}, HasLength: true, SegmentLen: 8192, DDPHeader: send},
			"DDP untagged buffer error: message too long for available buffer, Send on queue 0, MSN 1, MO 0, length 8192",
		},
		{
			"Read Request", slices.Concat([]byte{0x01, 0x00, 0xe0, 0, 0, 46}, read),
			Terminate{
				Cause: ErrInvalidSTag, HasLength: true, SegmentLen: 46,
				DDPHeader: read[:ddp.UntaggedLen], RDMAPHeader: read[ddp.UntaggedLen:],
			},
			"RDMAP remote protection error: invalid STag, RDMA Read Request on queue 1, MSN 1, MO 0, of 256 bytes from STag 0x22222222, TO 0x3000 to STag 0x11111111, TO 0x2000, length 46",
		},
		{
			"length alone",
			[]byte{0x02, 0x07, 0x80, 0, 0, 46},
			Terminate{Cause: ErrStream, HasLength: true, SegmentLen: 46},
			"RDMAP remote operation error: catastrophic error of the stream, length 46",
		},
		{
			"header without M", slices.Concat([]byte{0x11, 0x00, 0x40, 0, 0, 0}, write),
			Terminate{Cause: Error{1, 1, 0}, DDPHeader: write},
			"DDP tagged buffer error: invalid STag, RDMA Write to STag 0x22639a00, TO 0x55b87f7bd730",
		},
	}
}

func TestTerminate(t *testing.T) {
	for _, tt := range terminateCases(t) {
		t.Run(tt.name, func(t *testing.T) {
			assert.LessOrEqual(t, len(tt.wire), TerminateMaxLen)
			assert.Equal(t, tt.wire, tt.msg.AppendTo(nil))
			got, err := ParseTerminate(tt.wire)
			require.NoError(t, err)
			assert.Equal(t, tt.msg, got) // R5040-3.2-14
			assert.Equal(t, tt.text, got.String())

			padded, err := ParseTerminate(append(bytes.Clone(tt.wire), make([]byte, 48)...))
			require.NoError(t, err)
			assert.Equal(t, tt.msg, padded, "R5040-7.1-1-1: zero fields may follow")

			for n := range tt.wire { // truncated at every byte
				_, err := ParseTerminate(tt.wire[:n])
				assert.ErrorIs(t, err, ErrLength, n)
			}

			reserved := bytes.Clone(tt.wire)
			reserved[2] |= 0x1f // R5040-4.8-14
			reserved[3] = 0xff
			got, err = ParseTerminate(reserved)
			require.NoError(t, err)
			assert.Equal(t, tt.msg, got)
		})
	}
}

// TestTerminateOfSiw parses Linux siw's answers to faults, with bytes 0 to 2 as
// captured.
func TestTerminateOfSiw(t *testing.T) {
	write, send, read := goldenSegment(t, "write-siw.hex"), goldenSegment(t, "send.hex"), goldenSegment(t, "read-request.hex")
	tests := []struct {
		stimulus string
		bytes    [3]byte
		want     error
		layout   Layout
		header   []byte
	}{
		{"CRC wrong", [3]byte{0x02, 0x02, 0x00}, mpa.ErrCRC, LayoutSiw, nil},
		{"DDP version 0", [3]byte{0x21, 0x06, 0x00}, ddp.ErrUntaggedVersion, LayoutSiw, nil},
		{"Send on queue 3", [3]byte{0x21, 0x01, 0x03}, ddp.ErrInvalidQN, LayoutSiw, send},
		{"no buffer", [3]byte{0x21, 0x02, 0x03}, ddp.ErrNoBuffer, LayoutSiw, send},
		{"MSN wrong", [3]byte{0x21, 0x03, 0x03}, ddp.ErrMSNRange, LayoutSiw, send},
		{"MO wrong", [3]byte{0x21, 0x04, 0x03}, ddp.ErrInvalidMO, LayoutSiw, send},
		{"unknown STag", [3]byte{0x11, 0x00, 0x03}, ddp.ErrInvalidSTag, LayoutSiw, write},
		{"Read Response too long", [3]byte{0x11, 0x01, 0x03}, ddp.ErrBounds, LayoutSiw, write},
		{"Read Response unasked", [3]byte{0x01, 0x00, 0x03}, ddp.ErrCatastrophic, LayoutSiw, write},
		{"Read of unknown STag", [3]byte{0x10, 0x00, 0x07}, ErrInvalidSTag, LayoutSiw, read},
		{"Read beyond IRD", [3]byte{0x20, 0x07, 0x03}, ErrStream, LayoutSiw, read[:ddp.UntaggedLen]},
		{"Invalidate of unknown STag", [3]byte{0x20, 0x09, 0x03}, Error{0, 2, 9}, LayoutSiw, send},
		// Nothing in these reveals the layout.
		{"ORD too large", [3]byte{0x02, 0x06, 0x00}, ErrOpcode, LayoutEither, nil},
		{"RDMAP version 0", [3]byte{0x20, 0x05, 0x00}, mpa.ErrLocal, LayoutEither, nil},
		{"opcode 8", [3]byte{0x20, 0x06, 0x00}, mpa.ErrIRD, LayoutEither, nil},
	}
	for _, tt := range tests {
		t.Run(tt.stimulus, func(t *testing.T) {
			wire := append(tt.bytes[:], 0)
			if tt.header != nil {
				wire = slices.Concat(wire, []byte{0, 100}, tt.header)
			}
			got, err := ParseTerminate(wire)
			require.NoError(t, err)
			assert.ErrorIs(t, got.Cause, tt.want)
			assert.Equal(t, tt.layout, got.Layout)
			assert.Equal(t, tt.header != nil, got.HasLength)
			assert.Equal(t, string(tt.header), string(got.DDPHeader)+string(got.RDMAPHeader))
		})
	}
	got, err := ParseTerminate([]byte{0x20, 0x06, 0, 0})
	require.NoError(t, err)
	assert.Equal(t, ErrOpcode, got.SiwCause())
	assert.Equal(t, "MPA error: insufficient IRD resources "+
		"(or, if from siw, RDMAP remote operation error: unexpected opcode)", got.String())
}

func TestTerminateReservedBitsThatLookLikeSiw(t *testing.T) {
	// No headers follow, so these cannot be siw's bits: R5040-4.8-14.
	got, err := ParseTerminate([]byte{0x02, 0x07, 0x07, 0xff})
	require.NoError(t, err)
	assert.Equal(t, ErrStream, got.Cause)
	assert.False(t, got.HasLength)
	assert.Nil(t, got.DDPHeader)
}

func TestNewTerminate(t *testing.T) {
	write, read := goldenSegment(t, "write-siw.hex"), goldenSegment(t, "read-request.hex")
	invalidate := goldenSegment(t, "send-invalidate.hex")
	withHeader := func(cause Error, seg []byte, n int) Terminate {
		return Terminate{Cause: cause, HasLength: true, SegmentLen: uint16(len(seg)), DDPHeader: seg[:n]}
	}
	tagged := ErrorOf(ddp.ErrBounds)
	readFault := withHeader(ErrBounds, read, ddp.UntaggedLen)
	readFault.RDMAPHeader = read[ddp.UntaggedLen:]

	assert.Equal(t, withHeader(tagged, write, ddp.TaggedLen), NewTerminate(tagged, write, len(write))) // R5041-7.1-3
	assert.Equal(t, readFault, NewTerminate(ErrBounds, read, len(read)))                               // R5040-7.1-3-1
	assert.Equal(t, withHeader(ErrStream, read, ddp.UntaggedLen), NewTerminate(ErrStream, read, len(read)))
	assert.Equal(t, withHeader(ErrCannotInvalidate, invalidate, ddp.UntaggedLen),
		NewTerminate(ErrCannotInvalidate, append(invalidate, make([]byte, 100)...), len(invalidate)),
		"R5040-4.8-20: of a Send there is no RDMAP header")
	assert.Equal(t, withHeader(ErrBounds, read, ddp.UntaggedLen), NewTerminate(ErrBounds, read[:45], 46), "not at hand")

	for _, cause := range []Error{ErrCatastrophic, ErrorOf(mpa.ErrCRC), ErrorOf(ddp.ErrCatastrophic)} {
		assert.Equal(t, Terminate{Cause: cause}, NewTerminate(cause, write, 14)) // R5040-4.8-18, R5040-4.8-23
	}
	for n := range ddp.TaggedLen {
		assert.Equal(t, Terminate{Cause: tagged}, NewTerminate(tagged, write[:n], 14), "header not at hand")
	}
	assert.Equal(t, Terminate{Cause: ErrOpcode}, NewTerminate(ErrOpcode, nil, 0)) // R5040-7.1-1-1
}

func TestTerminateStringOfOddHeader(t *testing.T) {
	for _, control := range []byte{0x00, 0x41, 0xc3, 0xff} { // a wrong version may be the fault
		header := make([]byte, ddp.HeaderLen(control))
		header[0], header[1] = control, 0xff
		text := Terminate{Cause: ErrVersion, DDPHeader: header}.String()
		assert.Contains(t, text, "invalid RDMAP version, opcode 15")
	}
}

func FuzzTerminate(f *testing.F) {
	for _, tt := range terminateCases(f) {
		f.Add(tt.wire)
		siw := bytes.Clone(tt.wire)
		siw[0] = siw[0]<<4 | siw[0]>>4
		siw[2] = siw[2]>>7 | siw[2]>>5&2 | siw[2]>>3&4
		f.Add(siw)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		msg, err := ParseTerminate(wire)
		if err != nil {
			assert.ErrorIs(t, err, ErrLength)
			return
		}
		assert.NotEmpty(t, msg.String())
		out := msg.AppendTo(nil)
		assert.LessOrEqual(t, len(out), TerminateMaxLen)
		again, err := ParseTerminate(out)
		require.NoError(t, err)
		if msg.Layout == LayoutSiw { // written in RFC 5040's layout
			msg.Layout = again.Layout
		}
		assert.Equal(t, msg, again)
	})
}
