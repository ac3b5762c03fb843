package packet

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

// gid returns an IPv4 address as a GID.
func gid(a, b, c, d byte) GID { return GID{10: 0xff, 11: 0xff, 12: a, 13: b, 14: c, 15: d} }

// golden are complete packets from rxe.
var golden = []struct {
	file string
	net  Network
	head Packet // except for its payload
	data int    // bytes
}{
	{
		"uc-send-first.hex",
		Network{Src: gid(192, 168, 77, 2), Dst: gid(192, 168, 77, 1), SrcPort: 49441, Ident: 12176},
		Packet{BTH: BTH{Opcode: UCSendFirst, PKey: 0xffff, DestQP: 0x11, PSN: 13086837}},
		1024,
	},
	{
		"uc-send-last.hex",
		Network{Src: gid(192, 168, 77, 2), Dst: gid(192, 168, 77, 1), SrcPort: 49441, Ident: 12177},
		Packet{BTH: BTH{Opcode: UCSendLast, PKey: 0xffff, DestQP: 0x11, PSN: 13086838}},
		1024,
	},
	{
		"uc-send-last-answer.hex",
		Network{Src: gid(192, 168, 77, 1), Dst: gid(192, 168, 77, 2), SrcPort: 49441, Ident: 38175},
		Packet{BTH: BTH{Opcode: UCSendLast, PKey: 0xffff, DestQP: 0x11, PSN: 11715368}},
		1024,
	},
	{
		"ud-send-only.hex",
		Network{Src: gid(192, 168, 77, 2), Dst: gid(192, 168, 77, 1), SrcPort: 63494, Ident: 12626},
		Packet{BTH: BTH{Opcode: UDSendOnly, PKey: 0xffff, DestQP: 0x12, PSN: 8965884}, DETH: DETH{QKey: 0x11111111, SrcQP: 0x12}},
		1000,
	},
	{
		"ud-send-only-answer.hex",
		Network{Src: gid(192, 168, 77, 1), Dst: gid(192, 168, 77, 2), SrcPort: 63494, Ident: 38234},
		Packet{BTH: BTH{Opcode: UDSendOnly, PKey: 0xffff, DestQP: 0x12, PSN: 0x26d3ee}, DETH: DETH{QKey: 0x11111111, SrcQP: 0x12}},
		1000,
	},
}

// wire returns the bytes in a packet from rxe, starting with the IP header.
func wire(t testing.TB, file string) (ip, ib []byte) {
	all := wiretest.Hex(t, "testdata/"+file)
	return all[:IPv4Len+UDPLen], all[IPv4Len+UDPLen:]
}

// TestGolden decodes packets from rxe, and encodes them to the same bytes,
// including IP, UDP and the ICRC.
func TestGolden(t *testing.T) {
	for _, tt := range golden {
		t.Run(tt.file, func(t *testing.T) {
			ip, ib := wire(t, tt.file)
			tt.net.HopLimit, tt.net.Fragment = 64, DontFragment

			var got Packet
			var rest []byte
			var err error
			got.BTH, rest, err = ParseBTH(ib[:len(ib)-ICRCLen])
			require.NoError(t, err)
			require.NoError(t, got.ParseExtended(rest))
			require.Len(t, got.Payload, tt.data)
			payload := got.Payload
			got.Payload = nil
			assert.Equal(t, tt.head, got)

			var c Check
			got.Payload = payload
			assert.Equal(t, ib, c.AppendICRC(&tt.net, got.AppendTo(nil))) // RIB-C9-176
			assert.True(t, c.Valid(&tt.net, ib))
			assert.Equal(t, ip, tt.net.appendUDP(tt.net.appendIPv4(nil, UDPLen+len(ib)), len(ib)))

			seen := tt.net
			seen.Ident, seen.Fragment = 0xdead, 0xbeef
			require.True(t, c.Solve(&seen, ib))
			assert.Equal(t, tt.net, seen, "by the ICRC alone")
		})
	}
}

// TestSample checks both CRCs with the Architecture's own sample, and an IBA
// link's headers.
func TestSample(t *testing.T) {
	all := wiretest.Hex(t, "testdata/sample.hex")
	lrh, rest, err := ParseLRH(all)
	require.NoError(t, err)
	want := LRH{VL: 7, SL: 1, Next: Local, DLID: 0x375c, SLID: 0x17d2, Words: 14}
	assert.Equal(t, want, lrh)
	assert.Equal(t, all[:LRHLen], lrh.AppendTo(nil))
	bth, rest, err := ParseBTH(rest)
	require.NoError(t, err)
	assert.Equal(t, BTH{Opcode: 0x0a, Pad: 2, PKey: 0x2487, DestQP: 0x87b1b3, PSN: 0x0dec2a}, bth)
	assert.Equal(t, all[LRHLen:][:BTHLen], bth.AppendTo(nil))
	reth := RETH{VA: 0x01710a1c015d4002, RKey: 0x38f27a05, Length: 14}
	assert.Equal(t, rest[:RETHLen], reth.AppendTo(nil))

	icrc, vcrc := len(all)-VCRCLen-ICRCLen, len(all)-VCRCLen
	masked := append([]byte(nil), all[:icrc]...)
	masked[0] |= 0xf0
	masked[LRHLen+4] = 0xff
	assert.Equal(t, crc32.ChecksumIEEE(masked), binary.LittleEndian.Uint32(all[icrc:]))
	assert.Equal(t, VCRC(all[:vcrc]), binary.LittleEndian.Uint16(all[vcrc:]))
}

// TestICRCFields changes each bit in a packet. The ICRC must detect every
// change, except in fields that routers change and in bits that Solve cannot
// see.
func TestICRCFields(t *testing.T) {
	_, ib := wire(t, "ud-send-only.hex")
	var c Check
	net := golden[3].net
	net.Fragment = DontFragment
	require.True(t, c.Valid(&net, ib))
	for bit := range 8 * len(ib) {
		if at := bit / 8; at > 64 && at < len(ib)-8 {
			continue // one bit among many in the payload
		}
		ib[bit/8] ^= 1 << (bit % 8)
		if masked := bit/8 == 4; masked {
			assert.True(t, c.Valid(&net, ib), "the reserved byte of the BTH")
		} else {
			assert.False(t, c.Valid(&net, ib), "bit %d", bit)
		}
		solved := net
		if c.Solve(&solved, ib) {
			assert.Equal(t, 4, bit/8, "bit %d", bit)
		}
		ib[bit/8] ^= 1 << (bit % 8)
	}

	for name, change := range map[string]func(*Network){
		"source":         func(w *Network) { w.Src[15]++ },
		"destination":    func(w *Network) { w.Dst[15]++ },
		"source port":    func(w *Network) { w.SrcPort++ },
		"identification": func(w *Network) { w.Ident++ },
		"flags":          func(w *Network) { w.Fragment = 0 },
	} {
		w := net
		change(&w)
		assert.False(t, c.Valid(&w, ib), name)
	}
	net.TrafficClass, net.HopLimit = 3, 4
	assert.True(t, c.Valid(&net, ib), "fields that routers change")

	net.Src, net.Dst = GID{0: 0xfe, 1: 0x80, 15: 1}, GID{0: 0xfe, 1: 0x80, 15: 2}
	ib = c.AppendICRC(&net, ib[:len(ib)-ICRCLen])
	net.TrafficClass, net.HopLimit, net.Ident, net.Fragment = 5, 6, 7, 8 // IPv6 lacks the last two
	assert.True(t, c.Valid(&net, ib))
	net.Dst[15]++
	assert.False(t, c.Valid(&net, ib))
}

// TestShift compares with a CRC that continues over zeros.
func TestShift(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 44, 1000, 1055, 4096 + 100, 65535} {
		zeros := make([]byte, n)
		a := ^crc32.Update(^uint32(0x12345678), crc32.IEEETable, zeros)
		assert.EqualValues(t, 0x12345678, unshiftZeros(a, n), n)
	}
}

func TestAllocations(t *testing.T) {
	_, ib := wire(t, "ud-send-only.hex")
	net := golden[3].net
	c, p, b := new(Check), new(Packet), make([]byte, 0, 2048)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		w := net
		_ = c.Solve(&w, ib)
		p.BTH, _, _ = ParseBTH(ib)
		_ = p.ParseExtended(ib[BTHLen:])
		_ = c.AppendICRC(&w, p.AppendTo(b))
		_ = w.AppendGRH(b, len(ib))
	}))
}
