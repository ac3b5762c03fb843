package rdmap

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
)

// TestOpcodes checks RFC 5040, Figure 4 and RFC 7306, Figure 2: R5040-4.1-4,
// R5040-4.1-5, R5040-4.1-6, R5040-4.1-7, and the queues in R5040-3.1-2,
// R5040-3.1-3, R5040-3.1-4.
func TestOpcodes(t *testing.T) {
	const stag, to = rdma.STag(0xa1a2a3a4), uint64(0xb1b2b3b4b5b6b7b8)
	tests := []struct {
		op          Opcode
		number      uint8
		name        string
		tagged      bool
		queue       uint32
		invalidates bool
		solicited   bool
	}{
		{OpWrite, 0, "RDMA Write", true, 0, false, false},
		{OpReadRequest, 1, "RDMA Read Request", false, 1, false, false},
		{OpReadResponse, 2, "RDMA Read Response", true, 0, false, false},
		{OpSend, 3, "Send", false, 0, false, false},
		{OpSendInvalidate, 4, "Send with Invalidate", false, 0, true, false},
		{OpSendSE, 5, "Send with SE", false, 0, false, true},
		{OpSendSEInvalidate, 6, "Send with SE and Invalidate", false, 0, true, true},
		{OpTerminate, 7, "Terminate", false, 2, false, false},
		// R7306-4.1-1, R7306-4.1-2, R7306-4.1-5, R7306-4.1-6, RX01-4.1-2
		{OpImmediate, 8, "Immediate Data", false, 0, false, false},
		{OpImmediateSE, 9, "Immediate Data with SE", false, 0, false, true},
		{OpAtomicRequest, 10, "Atomic Request", false, 1, false, false},
		{OpAtomicResponse, 11, "Atomic Response", false, 3, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.EqualValues(t, tt.number, tt.op)
			assert.Equal(t, tt.name, tt.op.String())
			assert.Equal(t, tt.tagged, tt.op.Tagged())
			assert.Equal(t, tt.invalidates, tt.op.Invalidates())
			assert.Equal(t, tt.solicited, tt.op.Solicited())
			b := 0x40 | tt.number // R5040-4.1-2, R5040-4.1-8, R5040-4.1-9
			if tt.tagged {
				h := ddp.Tagged{Last: true, RsvdULP: b, STag: stag, TO: to}
				assert.Equal(t, h.AppendTo(nil), AppendTagged(nil, tt.op, true, stag, to)) // R5040-3.1-6
				op, err := CheckTagged(h)
				require.NoError(t, err)
				assert.Equal(t, tt.op, op)
				return
			}
			h := ddp.Untagged{Last: true, RsvdULP: b, QN: tt.queue, MSN: 5, MO: 6}
			if tt.invalidates {
				h.RsvdULP4 = uint32(stag) // R5040-4.1-3
			} // otherwise R5040-4.1-11, R7306-4.1-3: zero for any argument
			assert.Equal(t, h.AppendTo(nil), AppendUntagged(nil, tt.op, true, stag, 5, 6)) // R5040-4.1-1
			h.RsvdULP4 = uint32(stag)                                                      // R5040-4.1-12, R7306-4.1-4: ignored
			op, err := CheckUntagged(h)
			require.NoError(t, err)
			assert.Equal(t, tt.op, op)
			assert.Equal(t, stag, InvalidateSTag(h))
		})
	}
	for invalidate, ops := range map[bool][2]Opcode{false: {OpSend, OpSendSE}, true: {OpSendInvalidate, OpSendSEInvalidate}} {
		assert.Equal(t, ops[0], SendOpcode(invalidate, false))
		assert.Equal(t, ops[1], SendOpcode(invalidate, true))
	}
}

func TestGoldenMessages(t *testing.T) {
	tests := []struct {
		file  string
		build func(b []byte) []byte
	}{
		{"send.hex", func(b []byte) []byte { return AppendUntagged(b, OpSend, true, 0, 1, 0) }},
		{"send-invalidate.hex", func(b []byte) []byte {
			return append(AppendUntagged(b, OpSendInvalidate, true, 0xaabbccdd, 5, 0), 'x') // R5040-4.7-1
		}},
		{"send-invalidate-siw.hex", func(b []byte) []byte {
			return AppendUntagged(b, OpSendInvalidate, true, 0x21fec601, 2, 0)
		}},
		{"write-siw.hex", func(b []byte) []byte { // R5040-4.3-1
			return AppendTagged(b, OpWrite, true, 0x22639a00, 0x55b87f7bd730)
		}},
		{"read-response-siw.hex", func(b []byte) []byte { // R5040-4.5-1
			return AppendTagged(b, OpReadResponse, true, 0xaa4c7e00, 0x55b04a3e2730)
		}},
		{"read-response-not-last.hex", func(b []byte) []byte {
			return AppendTagged(b, OpReadResponse, false, 0xfeba8a01, 0xffff88807e0c9b38)
		}},
		{"read-request.hex", func(b []byte) []byte {
			return ReadRequest{
				SinkSTag: 0x11111111, SinkTO: 0x2000, Size: 256, SourceSTag: 0x22222222, SourceTO: 0x3000,
			}.AppendTo(AppendUntagged(b, OpReadRequest, true, 0, 1, 0))
		}},
		{"terminate-opcode.hex", func(b []byte) []byte {
			bad := ddp.Untagged{Last: true, RsvdULP: 0x4c, MSN: 1}.AppendTo(nil)
			return NewTerminate(ErrOpcode, bad, len(bad)).AppendTo(AppendUntagged(b, OpTerminate, true, 0, 1, 0))
		}},
		{"terminate-crc.hex", func(b []byte) []byte {
			return Terminate{Cause: Error{2, 0, 2}}.AppendTo(AppendUntagged(b, OpTerminate, true, 0, 1, 0))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, "testdata/"+tt.file)
			assert.Equal(t, wire, tt.build(nil))
			check := func(data []byte) error {
				if ddp.IsTagged(data[0]) {
					h, _, err := ddp.ParseTagged(data)
					require.NoError(t, err)
					_, err = CheckTagged(h)
					return err
				}
				h, _, err := ddp.ParseUntagged(data)
				require.NoError(t, err)
				_, err = CheckUntagged(h)
				return err
			}
			assert.NoError(t, check(wire))
			wire[1] |= 0x30 // R5040-4.1-10
			assert.NoError(t, check(wire))
		})
	}
}

func TestControlErrors(t *testing.T) {
	for i := range 256 {
		rv, op := i>>6, Opcode(i&0x0f)
		for qn := range uint32(5) {
			_, err := CheckUntagged(ddp.Untagged{RsvdULP: uint8(i), QN: qn})
			switch {
			case qn > 3:
				assert.ErrorIs(t, err, ddp.ErrInvalidQN) // R5041-7.1-U1-1, R7306-10.2-1
			case rv != 1:
				assert.ErrorIs(t, err, ErrVersion) // R5040-7.2-3-1, R5040-7.2-R3-1, R5044-C.1-1
			case op > 11 || op == OpWrite || op == OpReadResponse || kinds[op].queue != qn:
				assert.ErrorIs(t, err, ErrOpcode) // R5040-7.2-2-1, R5040-7.2-R2-1, R5040-4.1-13
			default:
				assert.NoError(t, err)
			}
		}
		_, err := CheckTagged(ddp.Tagged{RsvdULP: uint8(i)})
		switch {
		case rv != 1:
			assert.ErrorIs(t, err, ErrVersion)
		case op != OpWrite && op != OpReadResponse:
			assert.ErrorIs(t, err, ErrOpcode) // R5040-4.1-5
		default:
			assert.NoError(t, err)
		}
	}
	assert.Equal(t, "opcode 12", Opcode(12).String())
	assert.False(t, Opcode(12).Tagged())
}

func TestAllocs(t *testing.T) {
	out := make([]byte, 0, 128)
	r := ReadRequest{Size: 5}
	request := wiretest.Hex(t, "testdata/read-request.hex")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		out = AppendTagged(out[:0], OpWrite, true, 1, 2)
		out = r.AppendTo(AppendUntagged(out, OpReadRequest, true, 0, 1, 0))
		h, payload, _ := ddp.ParseUntagged(request)
		_, _ = CheckUntagged(h)
		_, _ = ParseReadRequest(payload)
		_ = r.Check(Source{Len: 5, Readable: true})
	}))
}
