package packet

import "fmt"

// A GRH is the Global Route Header (section 8.3), which has the IPv6 header's
// form. In a raw datagram it is an IPv6 header.
//
//	IPVer 4 │ TClass 8 │ FlowLabel 20
//	PayLen 16          │ NxtHdr 8 │ HopLmt 8
//	SGID 128, DGID 128
type GRH struct {
	Version      uint8 // IPVer: 6; 0 is sent as 6
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits
	PayLen       uint16 // bytes after the header, without a VCRC
	NextHeader   uint8
	HopLimit     uint8
	SGID, DGID   GID
}

// NextHeaderIBA is the NextHeader before a BTH.
const NextHeaderIBA = 0x1b

const ipVersion = 6

// AppendTo appends h's wire form to b.
func (h GRH) AppendTo(b []byte) []byte {
	version := h.Version
	if version == 0 {
		version = ipVersion
	}
	b = be.AppendUint32(b, uint32(version)<<28|uint32(h.TrafficClass)<<20|h.FlowLabel&0xfffff)
	b = be.AppendUint16(b, h.PayLen)
	b = append(b, h.NextHeader, h.HopLimit)
	return append(append(b, h.SGID[:]...), h.DGID[:]...)
}

// ParseGRH parses the header at the start of b and returns the rest. It does
// not check the version.
func ParseGRH(b []byte) (h GRH, rest []byte, err error) {
	if len(b) < GRHLen {
		return GRH{}, nil, fmt.Errorf("%w: %d of %d bytes of a GRH", ErrShort, len(b), GRHLen)
	}
	word := be.Uint32(b)
	return GRH{
		Version: uint8(word >> 28), TrafficClass: uint8(word >> 20), FlowLabel: word & 0xfffff,
		PayLen: be.Uint16(b[4:]), NextHeader: b[6], HopLimit: b[7],
		SGID: GID(b[8:24]), DGID: GID(b[24:40]),
	}, b[GRHLen:], nil
}
