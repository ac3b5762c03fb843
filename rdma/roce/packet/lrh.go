package packet

import "fmt"

// Header and trailer lengths for packets on an IBA link, in bytes.
const (
	LRHLen  = 8
	RWHLen  = 4
	VCRCLen = 2
)

// LNH is LRH:LNH: the next header's kind.
type LNH uint8

// The headers that may follow an LRH (section 7.7.5).
const (
	RawEthertype LNH = iota // an RWH
	RawIPv6                 // an IPv6 header, without an IBA transport after it
	Local                   // a BTH
	Global                  // a GRH
)

// An LRH is the Local Route Header (section 7.7).
//
//	VL 4 │ LVer 4 │ SL 4 │ reserved 2 │ LNH 2 │ DLID 16
//	reserved 5 │ PktLen 11                    │ SLID 16
type LRH struct {
	VL, Version, SL uint8 // 4 bits each
	Next            LNH
	DLID, SLID      uint16
	Words           uint16 // PktLen, 11 bits: words of 4 bytes from the LRH up to the VCRC
}

const maxWords = 1<<11 - 1

// AppendTo appends h's wire form to b.
func (h LRH) AppendTo(b []byte) []byte {
	b = append(b, h.VL<<4|h.Version&15, h.SL<<4|uint8(h.Next&3))
	b = be.AppendUint16(b, h.DLID)
	b = be.AppendUint16(b, h.Words&maxWords)
	return be.AppendUint16(b, h.SLID)
}

// ParseLRH parses the header at the start of b and returns the rest.
func ParseLRH(b []byte) (h LRH, rest []byte, err error) {
	if len(b) < LRHLen {
		return LRH{}, nil, fmt.Errorf("%w: %d of %d bytes of an LRH", ErrShort, len(b), LRHLen)
	}
	return LRH{
		VL: b[0] >> 4, Version: b[0] & 15, SL: b[1] >> 4, Next: LNH(b[1] & 3),
		DLID: be.Uint16(b[2:]), Words: be.Uint16(b[4:]) & maxWords, SLID: be.Uint16(b[6:]),
	}, b[LRHLen:], nil
}

// vcrcTable is the table for the polynomial x^16+x^12+x^3+x+1 (0x100B),
// reflected.
var vcrcTable = func() (t [256]uint16) {
	for i := range t {
		c := uint16(i)
		for range 8 {
			if c&1 != 0 {
				c = c>>1 ^ 0xd008
			} else {
				c >>= 1
			}
		}
		t[i] = c
	}
	return t
}()

// VCRC returns the variant CRC over b, all bytes before the VCRC (section
// 7.8.2).
func VCRC(b []byte) uint16 {
	c := ^uint16(0)
	for _, o := range b {
		c = c>>8 ^ vcrcTable[uint8(c)^o]
	}
	return ^c
}
