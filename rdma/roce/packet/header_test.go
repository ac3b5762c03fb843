package packet

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

// TestOpcodes checks tables 38 and 56: each opcode's properties, and the
// requester's opcode for each place in the message.
func TestOpcodes(t *testing.T) {
	known := 0
	for o := range 256 {
		if op := Opcode(o); op.Known() {
			known++
		} else {
			assert.False(t, op.Starts() || op.Ends() || op.Write() || op.Immediate(), "%v", op)
		}
	}
	assert.Equal(t, 14, known)
	for _, write := range []bool{false, true} { // RIB-C9-176
		for _, imm := range []bool{false, true} {
			for _, starts := range []bool{false, true} {
				for _, ends := range []bool{false, true} {
					op := UCOpcode(write, starts, ends, imm)
					require.True(t, op.Known())
					assert.Equal(t, UC, op.Service(), "%v", op)
					assert.Equal(t, write, op.Write(), "%v", op)
					assert.Equal(t, starts, op.Starts(), "%v", op)
					assert.Equal(t, ends, op.Ends(), "%v", op)
					assert.Equal(t, ends && imm, op.Immediate(), "%v", op)
				}
			}
		}
	}
	assert.Equal(t, UD, UDSendOnly.Service())
	assert.Equal(t, "UC RDMA WRITE Last with Immediate", UCWriteLastImmediate.String())
	assert.Equal(t, "Opcode(0x2c)", Opcode(0x2c).String())
}

// TestBTHBits checks each field alone, and cuts at every byte.
func TestBTHBits(t *testing.T) {
	for _, tt := range []struct {
		h    BTH
		wire string
	}{
		{BTH{Opcode: 0x29}, "2900 0000 00000000 00000000"},
		{BTH{Solicited: true}, "0080 0000 00000000 00000000"},
		{BTH{Migrated: true}, "0040 0000 00000000 00000000"},
		{BTH{Pad: 3}, "0030 0000 00000000 00000000"},
		{BTH{Version: 15}, "000f 0000 00000000 00000000"},
		{BTH{PKey: 0x8001}, "0000 8001 00000000 00000000"},
		{BTH{DestQP: Mask24}, "0000 0000 00ffffff 00000000"},
		{BTH{AckReq: true}, "0000 0000 00000000 80000000"},
		{BTH{PSN: Mask24}, "0000 0000 00000000 00ffffff"},
	} {
		b := wiretest.Bytes(t, tt.wire)
		assert.Equal(t, b, tt.h.AppendTo(nil))
		got, rest, err := ParseBTH(append(b, 1, 2))
		require.NoError(t, err)
		assert.Equal(t, tt.h, got)
		assert.Equal(t, []byte{1, 2}, rest)
		for n := range BTHLen {
			_, _, err := ParseBTH(b[:n])
			require.ErrorIs(t, err, ErrShort)
		}
	}
	reserved := wiretest.Bytes(t, "0000 0000 aa000000 7f000000")
	got, _, err := ParseBTH(reserved)
	require.NoError(t, err)
	assert.Equal(t, BTH{}, got, "reserved bits are ignored")
	assert.Zero(t, NextPSN(Mask24))
}

// packets has one packet for each header form.
var packets = []struct {
	name string
	p    Packet
	wire string // after the BTH
}{
	{"write", Packet{BTH: BTH{Opcode: UCWriteOnly, Pad: 2}, RETH: RETH{VA: 0x0102030405060708, RKey: 0x0a0b0c0d, Length: 2}, Payload: []byte("ab")}, "0102030405060708 0a0b0c0d 00000002 6162 0000"},
	{"write with immediate", Packet{BTH: BTH{Opcode: UCWriteOnlyImmediate}, RETH: RETH{VA: 1, RKey: 2}, Immediate: 0xcafebabe}, "0000000000000001 00000002 00000000 cafebabe"},
	{"last of a write", Packet{BTH: BTH{Opcode: UCWriteLastImmediate, Pad: 3}, Immediate: 7, Payload: []byte("a")}, "00000007 61 000000"},
	{"middle", Packet{BTH: BTH{Opcode: UCWriteMiddle}, Payload: []byte("abcd")}, "61626364"},
	{"datagram", Packet{BTH: BTH{Opcode: UDSendOnlyImmediate, Pad: 1}, DETH: DETH{QKey: 0x80010000, SrcQP: 0x123456}, Immediate: 9, Payload: []byte("abc")}, "80010000 00123456 00000009 616263 00"},
}

func TestExtended(t *testing.T) {
	for _, tt := range packets {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.p.AppendTo(nil)
			behind := wiretest.Bytes(t, tt.wire)
			assert.Equal(t, behind, b[BTHLen:])
			assert.Equal(t, tt.p.Pad, PadFor(len(tt.p.Payload)))
			got := Packet{BTH: tt.p.BTH}
			require.NoError(t, got.ParseExtended(behind))
			assert.Equal(t, len(tt.p.Payload), len(got.Payload))
			if len(got.Payload) == 0 {
				got.Payload = nil
			}
			assert.Equal(t, tt.p, got)
			for n := range len(behind) - len(tt.p.Payload) {
				short := Packet{BTH: tt.p.BTH}
				require.ErrorIs(t, short.ParseExtended(behind[:n]), ErrShort, n)
			}
		})
	}
}

// TestGRH checks the two forms of the 40 bytes before a datagram.
func TestGRH(t *testing.T) {
	h := GRH{TrafficClass: 0x12, FlowLabel: 0x34567, PayLen: 0x89ab, NextHeader: NextHeaderIBA, HopLimit: 0xcd, SGID: GID{0: 0xfe, 15: 1}, DGID: GID{0: 0xff, 15: 2}}
	b := wiretest.Bytes(t, "61234567 89ab 1b cd fe00000000000000 0000000000000001 ff00000000000000 0000000000000002")
	assert.Equal(t, b, h.AppendTo(nil))
	got, _, err := ParseGRH(b)
	require.NoError(t, err)
	h.Version = 6
	assert.Equal(t, h, got)
	_, _, err = ParseGRH(b[:GRHLen-1])
	require.ErrorIs(t, err, ErrShort)

	ip, ib := wire(t, "ud-send-only.hex")
	w := golden[3].net
	w.HopLimit, w.Fragment = 64, DontFragment
	grh := w.AppendGRH(nil, len(ib))
	assert.Equal(t, append(make([]byte, GRHLen-IPv4Len), ip[:IPv4Len]...), grh, "as rxe delivers it")
	from, err := SourceOf(grh)
	require.NoError(t, err)
	assert.Equal(t, w.Src, from)

	w.Src, w.Dst, w.TrafficClass = h.SGID, h.DGID, 8
	grh = w.AppendGRH(nil, 100)
	assert.Equal(t, wiretest.Bytes(t, "60800000 006c 11 40"), grh[:8])
	from, err = SourceOf(grh)
	require.NoError(t, err)
	assert.Equal(t, h.SGID, from)
	_, err = SourceOf(grh[:39])
	require.ErrorIs(t, err, ErrShort)

	assert.True(t, h.DGID.Multicast())
	assert.False(t, h.SGID.Multicast())
	assert.True(t, gid(224, 0, 0, 251).Multicast())
	assert.False(t, gid(192, 0, 0, 251).Multicast())
}
