package rdmap

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
)

// atomics holds R7306-4-1, R7306-5.2.1-1, R7306-5.2.1-2, R7306-5.2.1-5 and
// R7306-5.2.1-8 in both directions.
var atomics = []struct {
	file string
	msn  uint32
	req  AtomicRequest
}{
	{"fetch-add.hex", 1, AtomicRequest{
		Op: rdma.OpFetchAdd, ID: 7, STag: 0x22222222, TO: 0x3000, Atomic: rdma.Atomic{Operand: 1},
	}},
	{"cmp-swap.hex", 2, AtomicRequest{
		Op: rdma.OpCompareSwap, ID: 8, STag: 0x22222222, TO: 0x3008, Atomic: rdma.Atomic{
			Operand: 0x0102030405060708, OperandMask: 0xffffffff00000000,
			Compare: 0x1112131415161718, CompareMask: 0x00000000ffffffff,
		},
	}},
}

// TestAtomicRequest checks that the header is 52 bytes, and an untagged message
// on queue 1 with nothing behind: R7306-4.1-1, R7306-4.1-3, R7306-4.1-5,
// R7306-4.1-6, R7306-4.1-7, R7306-4.2-1, R7306-5.2.1-1-1, R7306-5.2.1-5-1.
func TestAtomicRequest(t *testing.T) {
	for _, tt := range atomics {
		t.Run(tt.file, func(t *testing.T) {
			segment := wiretest.Hex(t, "testdata/"+tt.file)
			assert.Equal(t, segment, tt.req.AppendTo(AppendUntagged(nil, OpAtomicRequest, true, 0xffffffff, tt.msn, 0)))
			h, wire, err := ddp.ParseUntagged(segment)
			require.NoError(t, err)
			op, err := CheckUntagged(h)
			require.NoError(t, err)
			assert.Equal(t, OpAtomicRequest, op)
			require.Len(t, wire, AtomicRequestLen) // R7306-4-1
			got, err := ParseAtomicRequest(wire)
			require.NoError(t, err)
			assert.Equal(t, tt.req, got)

			noise := bytes.Clone(wire)
			noise[0], noise[1], noise[2], noise[3] = 0xff, 0xff, 0xff, noise[3]|0xf0 // R7306-5.2.1-3, RX01-5.2.1-2
			if tt.req.Op == rdma.OpFetchAdd {
				copy(noise[36:], bytes.Repeat([]byte{0xa5}, 16)) // R7306-5.2.1-8
			}
			got, err = ParseAtomicRequest(noise)
			require.NoError(t, err)
			assert.Equal(t, tt.req, got)

			for n := range wire { // truncated at every byte
				_, err := ParseAtomicRequest(wire[:n])
				assert.ErrorIs(t, err, ErrLength, n)
			}
			_, err = ParseAtomicRequest(append(wire, 0))
			assert.ErrorIs(t, err, ErrLength)
		})
	}
}

// TestAtomicOperationCodes checks that FetchAdd is 0 and CmpSwap is 2; 1 is
// reserved, and the others are not assigned (R7306-10.1-1, R7306-5.2.1-4,
// R7306-5.2.1-4-1, RX01-5.1.2-1, RX01-5.2.1-4-1).
func TestAtomicOperationCodes(t *testing.T) {
	_, wire, err := ddp.ParseUntagged(wiretest.Hex(t, "testdata/cmp-swap.hex"))
	require.NoError(t, err)
	for code := range byte(16) {
		wire[3] = code
		got, err := ParseAtomicRequest(wire)
		switch code {
		case 0:
			assert.NoError(t, err)
			assert.Equal(t, rdma.OpFetchAdd, got.Op)
		case 2:
			assert.NoError(t, err)
			assert.Equal(t, rdma.OpCompareSwap, got.Op)
		default:
			assert.ErrorIs(t, err, ErrOpcode, code)
		}
	}
}

// TestAtomicResponse checks that the header is 12 bytes as in Figure 6, not 32
// as Section 4 says, and a message on queue 3: R7306-4-1, R7306-5.2.2-1,
// R7306-5.2-2, R7306-5-6, R7306-5.2.2-2-1, R7306-5.2.2-3-1, RX01-4.1-1.
func TestAtomicResponse(t *testing.T) {
	segment := wiretest.Hex(t, "testdata/atomic-response.hex")
	resp := AtomicResponse{ID: 7, Original: 41}
	assert.Equal(t, segment, resp.AppendTo(AppendUntagged(nil, OpAtomicResponse, true, 0xffffffff, 1, 0)))
	h, wire, err := ddp.ParseUntagged(segment)
	require.NoError(t, err)
	op, err := CheckUntagged(h)
	require.NoError(t, err)
	assert.Equal(t, OpAtomicResponse, op)
	require.Len(t, wire, AtomicResponseLen)
	got, err := ParseAtomicResponse(wire)
	require.NoError(t, err)
	assert.Equal(t, resp, got)
	for n := range wire { // truncated at every byte
		_, err := ParseAtomicResponse(wire[:n])
		assert.ErrorIs(t, err, ErrLength, n)
	}
	_, err = ParseAtomicResponse(append(wire, 0))
	assert.ErrorIs(t, err, ErrLength)
}

// TestImmediate checks that Immediate Data is 8 bytes behind the DDP header, on
// queue 0 with or without SE: R7306-6.2-1, R7306-6.3-1, R7306-6.3-4,
// R7306-6.3-5, RX01-4.1-1.
func TestImmediate(t *testing.T) {
	data := []byte{0, 1, 2, 3, 4, 5, 6, 7}
	for _, tt := range []struct {
		file      string
		msn       uint32
		solicited bool
	}{{"immediate.hex", 2, false}, {"immediate-se.hex", 3, true}} {
		t.Run(tt.file, func(t *testing.T) {
			segment := wiretest.Hex(t, "testdata/"+tt.file)
			op := ImmediateOpcode(tt.solicited)
			assert.Equal(t, segment, append(AppendUntagged(nil, op, true, 0xffffffff, tt.msn, 0), data...))
			h, payload, err := ddp.ParseUntagged(segment)
			require.NoError(t, err)
			assert.Equal(t, data, payload)
			assert.Len(t, payload, ImmediateLen)
			got, err := CheckUntagged(h)
			require.NoError(t, err)
			assert.Equal(t, op, got)
			assert.True(t, got.Immediate())
			assert.Equal(t, tt.solicited, got.Solicited())
		})
	}
}

// TestAtomicRequestCheck checks that the checks and their order match a Read
// Request's: R7306-5-5, R7306-9-1.
func TestAtomicRequestCheck(t *testing.T) {
	target := Target{TO: 1000, Len: 16, Atomic: true}
	for _, tt := range []struct {
		name   string
		target Target
		to     uint64
		want   error
	}{
		{"first word", target, 1000, nil},
		{"last word", target, 1008, nil},
		{"before", target, 999, ErrBounds},
		{"over the end", target, 1009, ErrBounds},
		{"behind", target, 1016, ErrBounds},
		{"wrap", target, 1<<64 - 7, ErrTOWrap},
		{"last of all words", target, 1<<64 - 8, ErrTOWrap},
		{"less than a word", Target{TO: 1000, Len: 7, Atomic: true}, 1000, ErrBounds},
		{"no right", Target{TO: 1000, Len: 16}, 1<<64 - 7, ErrAccess},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, AtomicRequest{TO: tt.to}.Check(tt.target))
		})
	}
}

// TestTerminateOfExtensions checks that a Terminate has no header if no message
// from the peer is at fault, and only the DDP header if a message defined in
// RFC 7306 is at fault (R7306-8.1-1-1, R7306-8.1-2-1).
func TestTerminateOfExtensions(t *testing.T) {
	for _, cause := range []Error{ErrCatastrophic, ErrStream, ErrUnspecified} {
		assert.Equal(t, Terminate{Cause: cause}, NewTerminate(cause, nil, 0))
	}
	for _, file := range []string{"fetch-add.hex", "cmp-swap.hex", "atomic-response.hex", "immediate.hex", "immediate-se.hex"} {
		segment := wiretest.Hex(t, "testdata/"+file)
		for _, cause := range []Error{ErrAccess, ErrStream, ErrOpcode, ErrorOf(ddp.ErrTooLong)} {
			want := Terminate{Cause: cause, HasLength: true, SegmentLen: uint16(len(segment)), DDPHeader: segment[:ddp.UntaggedLen]}
			assert.Equal(t, want, NewTerminate(cause, segment, len(segment)), file)
		}
		op, ok := NewTerminate(ErrOpcode, segment, len(segment)).Opcode()
		assert.True(t, ok)
		assert.True(t, op.Extension())
	}
	_, ok := Terminate{Cause: ErrOpcode}.Opcode()
	assert.False(t, ok)
}

func TestAtomicAllocs(t *testing.T) {
	out := make([]byte, 0, 128)
	_, req, err := ddp.ParseUntagged(wiretest.Hex(t, "testdata/cmp-swap.hex"))
	require.NoError(t, err)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		r, _ := ParseAtomicRequest(req)
		_ = r.Check(Target{Len: 1 << 20, Atomic: true})
		out = r.AppendTo(out[:0])
		out = AtomicResponse{ID: r.ID}.AppendTo(out)
		_, _ = ParseAtomicResponse(out[AtomicRequestLen:])
	}))
}

func FuzzAtomicRequest(f *testing.F) {
	for _, tt := range atomics {
		_, wire, err := ddp.ParseUntagged(wiretest.Hex(f, "testdata/"+tt.file))
		require.NoError(f, err)
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		r, err := ParseAtomicRequest(wire)
		if err != nil {
			return
		}
		out := r.AppendTo(nil)
		again, err := ParseAtomicRequest(out)
		require.NoError(t, err)
		assert.Equal(t, r, again)
		assert.Equal(t, wire[4:36], out[4:36], "no other byte is reserved")
		target := Target{TO: 1 << 20, Len: 1 << 16, Atomic: true}
		if r.Check(target) == nil {
			assert.GreaterOrEqual(t, r.TO, target.TO)
			assert.LessOrEqual(t, r.TO+rdma.WordLen, target.TO+target.Len)
		}
	})
}

func FuzzAtomicResponse(f *testing.F) {
	_, wire, err := ddp.ParseUntagged(wiretest.Hex(f, "testdata/atomic-response.hex"))
	require.NoError(f, err)
	f.Add(wire)
	f.Fuzz(func(t *testing.T, wire []byte) {
		r, err := ParseAtomicResponse(wire)
		if err != nil {
			assert.ErrorIs(t, err, ErrLength)
			return
		}
		assert.Equal(t, wire, r.AppendTo(nil), "no byte is reserved")
	})
}
