package packet

import (
	"encoding/binary"
	"hash/crc32"
)

// headLen is the maximum number of bytes that the ICRC covers up to and
// including the BTH.
const headLen = lrhOnes + GRHLen + UDPLen + BTHLen

// lrhOnes is the LRH length. RoCEv2 has no LRH; ones replace it in the ICRC.
const lrhOnes = LRHLen

// A Check computes invariant CRCs (section 7.8.1; for RoCEv2, annex A17). It
// holds memory for the masked headers, so that its methods do not allocate. The
// zero value is ready for use by one goroutine at a time.
type Check struct{ head [headLen]byte }

// computeICRC returns the CRC for a datagram whose bytes from BTH to pad are b, at
// least a BTH. Fields that routers change count as ones: traffic class, flow
// label, hop limit and checksums, and the reserved byte of the BTH.
func (c *Check) computeICRC(w *Network, b []byte) uint32 {
	h := c.head[:lrhOnes]
	for i := range h {
		h[i] = 0xff
	}
	at := len(h)
	n := UDPLen + len(b) + ICRCLen
	if w.Dst.Is4() {
		h = w.appendIPv4(h, n)
		h[at+1], h[at+8] = 0xff, 0xff
		h[at+10], h[at+11] = 0xff, 0xff
	} else {
		h = w.ipv6Header(n).AppendTo(h)
		h[at] |= 0x0f
		h[at+1], h[at+2], h[at+3], h[at+7] = 0xff, 0xff, 0xff, 0xff
	}
	h = w.appendUDP(h, n-UDPLen)
	h[len(h)-2], h[len(h)-1] = 0xff, 0xff
	h = append(h, b[:BTHLen]...)
	h[len(h)-BTHLen+4] = 0xff
	return crc32.Update(crc32.ChecksumIEEE(h), crc32.IEEETable, b[BTHLen:])
}

// AppendICRC appends the ICRC to a datagram that ends with b, which starts with
// its BTH.
func (c *Check) AppendICRC(w *Network, b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, c.computeICRC(w, b))
}

// Valid reports whether the last four bytes in b, which starts with a BTH, are
// b's ICRC.
func (c *Check) Valid(w *Network, b []byte) bool {
	at := len(b) - ICRCLen
	return at >= BTHLen && binary.LittleEndian.Uint32(b[at:]) == c.computeICRC(w, b[:at])
}

// Solve is like Valid, but for a receiver that cannot see two IPv4 header
// fields, as on a UDP socket. It sets w.Ident and w.Fragment to the only values
// for which the ICRC is correct, and reports whether w.Fragment is possible:
// DontFragment or zero. 15 of the check's 32 bits remain.
//
// A CRC is linear: the effect that these 32 bits have on the CRC, at any
// position, can be inverted.
func (c *Check) Solve(w *Network, b []byte) bool {
	at := len(b) - ICRCLen
	if at < BTHLen {
		return false
	}
	w.Ident, w.Fragment = 0, 0
	change := binary.LittleEndian.Uint32(b[at:]) ^ c.computeICRC(w, b[:at])
	behind := IPv4Len - identAt + UDPLen + at
	var word [4]byte
	binary.LittleEndian.PutUint32(word[:], unshiftZeros(change, behind))
	w.Ident, w.Fragment = be.Uint16(word[:]), be.Uint16(word[2:])
	return w.Fragment&^DontFragment == 0
}

// identAt is the identification's offset in the IPv4 header.
const identAt = 4
