package packet

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

// seal ends an IBA link's packet with its VCRC.
func seal(b []byte) []byte { return binary.LittleEndian.AppendUint16(b, VCRC(b)) }

func TestRaw(t *testing.T) {
	lrh := LRH{VL: 1, SL: 2, DLID: 3, SLID: 4}
	for n := range 9 { // RIB-o9-145
		payload := bytes.Repeat([]byte{0xee}, n)
		padded := n + int(PadFor(n))

		b, err := (&Raw{LRH: lrh, Ethertype: 0x88b5, Payload: payload}).AppendTo(nil)
		require.NoError(t, err)
		assert.Len(t, b, LRHLen+RWHLen+padded+VCRCLen)
		assert.Equal(t, wiretest.Bytes(t, "10 20 0003 00"), b[:5])
		assert.Equal(t, wiretest.Bytes(t, "0004 0000 88b5"), b[6:12])
		got, err := ParseRaw(b)
		require.NoError(t, err)
		assert.EqualValues(t, (LRHLen+RWHLen+padded)/4, got.LRH.Words)
		assert.Equal(t, append(payload, make([]byte, padded-n)...), got.Payload)
		assert.EqualValues(t, 0x88b5, got.Ethertype)

		lrh := lrh
		lrh.Next = RawIPv6
		ip := GRH{NextHeader: 17, HopLimit: 3, SGID: GID{1}, DGID: GID{2}}
		b, err = (&Raw{LRH: lrh, IPv6: ip, Payload: payload}).AppendTo(nil)
		require.NoError(t, err)
		assert.Len(t, b, LRHLen+GRHLen+padded+VCRCLen)
		got, err = ParseRaw(b)
		require.NoError(t, err)
		ip.Version, ip.PayLen = 6, uint16(n)
		assert.Equal(t, ip, got.IPv6)
		assert.Equal(t, payload, got.Payload, "without the pad")
	}
}

// TestRawRefuses checks each kind of invalid raw datagram.
func TestRawRefuses(t *testing.T) {
	ip := Raw{LRH: LRH{Next: RawIPv6}, IPv6: GRH{NextHeader: NextHeaderIBA}}
	_, err := ip.AppendTo(nil)
	require.ErrorIs(t, err, ErrTransport) // RIB-C9-208
	ip.IPv6.NextHeader = 59
	good, err := ip.AppendTo(nil)
	require.NoError(t, err)
	change := func(at int, v byte) []byte {
		b := append([]byte(nil), good[:len(good)-VCRCLen]...)
		b[at] = v
		return seal(b)
	}
	_, err = ParseRaw(change(LRHLen+6, NextHeaderIBA))
	require.ErrorIs(t, err, ErrTransport) // RIB-C9-208
	_, err = ParseRaw(change(LRHLen, 0x50))
	require.ErrorIs(t, err, ErrNotRaw)
	_, err = ParseRaw(change(LRHLen+5, 1))
	require.ErrorIs(t, err, ErrLength)
	_, err = ParseRaw(change(1, uint8(Local)))
	require.ErrorIs(t, err, ErrNotRaw)
	_, err = ParseRaw(change(1, uint8(Global)))
	require.ErrorIs(t, err, ErrNotRaw)
	_, err = ParseRaw(change(5, 13))
	require.ErrorIs(t, err, ErrLength)
	bad := append([]byte(nil), good...)
	bad[20] ^= 1
	_, err = ParseRaw(bad)
	require.ErrorIs(t, err, ErrVCRC)
	for n := range len(good) {
		_, err = ParseRaw(good[:n])
		require.Error(t, err, n)
	}
	_, err = ParseRaw(seal(LRH{Words: 2}.AppendTo(nil)))
	require.ErrorIs(t, err, ErrShort)
	_, err = (&Raw{LRH: LRH{Next: Local}}).AppendTo(nil)
	require.ErrorIs(t, err, ErrNotRaw)
}

// TestRawLimit checks that the payload may exceed the MTU, but the packet not
// the MTU and 124.
func TestRawLimit(t *testing.T) { // RIB-o9-148
	const longest = 4220 // the largest MTU and 124 bytes
	p := Raw{Payload: make([]byte, longest-LRHLen-RWHLen)}
	assert.Greater(t, len(p.Payload), 4096)
	b, err := p.AppendTo(nil)
	require.NoError(t, err)
	_, err = ParseRaw(b)
	require.NoError(t, err)
	p.Payload = append(p.Payload, 0)
	_, err = p.AppendTo(nil)
	require.ErrorIs(t, err, ErrTooLong)
	long := append(LRH{Words: (longest + 4) / 4}.AppendTo(nil), make([]byte, longest+4-LRHLen)...)
	_, err = ParseRaw(seal(long))
	require.ErrorIs(t, err, ErrTooLong)
}

// FuzzRaw checks that a parsed datagram is encoded to the same bytes, except
// for the pad, which is ignored, and reserved bits.
func FuzzRaw(f *testing.F) {
	for _, p := range []Raw{
		{Payload: []byte("abcde"), Ethertype: 0x800},
		{LRH: LRH{Next: RawIPv6, VL: 3}, IPv6: GRH{NextHeader: 17, FlowLabel: 5}, Payload: []byte("abcde")},
	} {
		b, err := p.AppendTo(nil)
		require.NoError(f, err)
		f.Add(b[:len(b)-VCRCLen])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParseRaw(seal(b))
		if err != nil {
			return
		}
		again, err := p.AppendTo(nil)
		require.NoError(t, err)
		require.Len(t, again, len(b)+VCRCLen)
		q, err := ParseRaw(again)
		require.NoError(t, err)
		require.Equal(t, p, q)
	})
}

// FuzzPacket checks that a parsed packet is encoded to the same bytes, except
// for reserved bits and the pad.
func FuzzPacket(f *testing.F) {
	for _, tt := range golden {
		_, ib := wire(f, tt.file)
		f.Add(ib[:len(ib)-ICRCLen])
	}
	for _, tt := range packets {
		f.Add(tt.p.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Packet
		var rest []byte
		var err error
		if p.BTH, rest, err = ParseBTH(b); err != nil {
			return
		}
		if err := p.ParseExtended(rest); err != nil {
			return
		}
		again := p.AppendTo(nil)
		require.Len(t, again, len(b))
		var q Packet
		q.BTH, rest, err = ParseBTH(again)
		require.NoError(t, err)
		require.NoError(t, q.ParseExtended(rest))
		require.Equal(t, p, q)
	})
}
