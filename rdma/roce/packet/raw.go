package packet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxRaw is the maximum length of an IBA packet without the VCRC, from the LRH
// on: the largest MTU plus 124 bytes (section 7.7.8).
const MaxRaw = 4096 + 124

// Raw datagram errors.
var (
	ErrNotRaw    = errors.New("packet: not a raw datagram")
	ErrLength    = errors.New("packet: the lengths differ")
	ErrVCRC      = errors.New("packet: wrong VCRC")
	ErrTransport = errors.New("packet: an IBA transport header in a raw datagram")
	ErrTooLong   = errors.New("packet: too long for a raw datagram")
)

// A Raw is a raw datagram (section 9.8.4). LRH.Next selects one of two forms:
// an RWH with the payload's Ethertype, or an IPv6 header whose NextHeader
// identifies the payload.
type Raw struct {
	LRH       LRH
	Ethertype uint16 // for RawEthertype
	IPv6      GRH    // for RawIPv6
	Payload   []byte // with the pad: a multiple of 4, if received
}

// headersLen returns the number of bytes before the payload.
func (p *Raw) headersLen() int {
	if p.LRH.Next == RawIPv6 {
		return LRHLen + GRHLen
	}
	return LRHLen + RWHLen
}

// AppendTo appends p's wire form to b, with zeros that make the payload a
// multiple of 4, the lengths in LRH and IPv6 header, and the VCRC. The errors
// are ErrNotRaw, ErrTooLong and ErrTransport (C9-208).
func (p *Raw) AppendTo(b []byte) ([]byte, error) {
	pad := PadFor(len(p.Payload))
	all := p.headersLen() + len(p.Payload) + int(pad)
	switch {
	case p.LRH.Next != RawIPv6 && p.LRH.Next != RawEthertype:
		return b, fmt.Errorf("%w: LNH %d", ErrNotRaw, p.LRH.Next)
	case p.LRH.Next == RawIPv6 && p.IPv6.NextHeader == NextHeaderIBA:
		return b, ErrTransport
	case all > MaxRaw:
		return b, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLong, all, MaxRaw)
	}
	start := len(b)
	lrh := p.LRH
	lrh.Words = uint16(all / 4)
	b = lrh.AppendTo(b)
	if p.LRH.Next == RawIPv6 {
		ip := p.IPv6
		ip.PayLen = uint16(len(p.Payload)) // IPv6's length does not include the pad
		b = ip.AppendTo(b)
	} else {
		b = append(b, 0, 0)
		b = be.AppendUint16(b, p.Ethertype)
	}
	b = append(b, p.Payload...)
	b = append(b, make([]byte, pad)...)
	return binary.LittleEndian.AppendUint16(b, VCRC(b[start:])), nil
}

// ParseRaw parses the raw datagram b. The checks follow the layers, link then
// network: VCRC, length, form, and the IPv6 header. ParseRaw truncates an IPv6
// payload to IPv6's own length. An RWH payload keeps its pad, because no field
// gives its length. The errors are ErrShort, ErrVCRC, ErrLength, ErrNotRaw,
// ErrTransport and ErrTooLong.
func ParseRaw(b []byte) (p Raw, err error) {
	if len(b) < LRHLen+VCRCLen {
		return p, fmt.Errorf("%w: %d bytes", ErrShort, len(b))
	}
	at := len(b) - VCRCLen
	if binary.LittleEndian.Uint16(b[at:]) != VCRC(b[:at]) {
		return p, ErrVCRC
	}
	var rest []byte
	if p.LRH, rest, err = ParseLRH(b[:at]); err != nil {
		return p, err
	}
	switch {
	case int(p.LRH.Words)*4 != at:
		return p, fmt.Errorf("%w: PktLen %d words, %d bytes", ErrLength, p.LRH.Words, at)
	case at > MaxRaw:
		return p, ErrTooLong
	case p.LRH.Next == RawEthertype:
		return p, p.parseEthertype(rest)
	case p.LRH.Next == RawIPv6:
		return p, p.parseIPv6(rest)
	}
	return p, fmt.Errorf("%w: LNH %d", ErrNotRaw, p.LRH.Next)
}

func (p *Raw) parseEthertype(rest []byte) error {
	if len(rest) < RWHLen {
		return fmt.Errorf("%w: %d of %d bytes of an RWH", ErrShort, len(rest), RWHLen)
	}
	p.Ethertype, p.Payload = be.Uint16(rest[2:]), rest[RWHLen:]
	return nil
}

func (p *Raw) parseIPv6(rest []byte) (err error) {
	if p.IPv6, rest, err = ParseGRH(rest); err != nil {
		return err
	}
	n := int(p.IPv6.PayLen)
	switch {
	case p.IPv6.Version != ipVersion:
		return fmt.Errorf("%w: version %d of IP", ErrNotRaw, p.IPv6.Version)
	case p.IPv6.NextHeader == NextHeaderIBA:
		return ErrTransport
	case n > len(rest) || len(rest)-n > MaxPad:
		return fmt.Errorf("%w: %d bytes after an IPv6 header with length %d", ErrLength, len(rest), n)
	}
	p.Payload = rest[:n]
	return nil
}
