package packet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Header and trailer lengths, in bytes.
const (
	BTHLen  = 12
	DETHLen = 8
	RETHLen = 16
	ImmLen  = 4
	ICRCLen = 4

	// MaxHeaders is the maximum length of the headers between UDP's and the
	// payload.
	MaxHeaders = BTHLen + RETHLen + ImmLen
	// MaxPad is the maximum pad length, between payload and ICRC.
	MaxPad = 3
)

// Mask24 covers a queue pair number, and a PSN.
const Mask24 = 1<<24 - 1

// MulticastQP is the destination queue pair in packets to a multicast group.
const MulticastQP uint32 = Mask24

// ErrShort means that the bytes end within a header.
var ErrShort = errors.New("packet: cut short")

var be = binary.BigEndian

// A BTH is the Base Transport Header (section 9.2).
//
//	OpCode 8 │ SE 1 M 1 PadCnt 2 TVer 4 │ P_Key 16
//	reserved 8, not under the ICRC      │ DestQP 24
//	A 1 reserved 7                      │ PSN 24
//
// Reserved bits are sent as zero and ignored on receipt.
type BTH struct {
	Opcode    Opcode
	Solicited bool  // SE: the receiver's client wants a notification
	Migrated  bool  // M: MigReq, for path migration, which is not supported
	Pad       uint8 // bytes between payload and ICRC, 0 to 3
	Version   uint8 // TVer, 4 bits; only 0 is defined
	PKey      uint16
	DestQP    uint32 // 24 bits
	AckReq    bool   // A: without meaning in unreliable services
	PSN       uint32 // 24 bits
}

// AppendTo appends h's wire form to b.
func (h BTH) AppendTo(b []byte) []byte {
	flags := h.Pad&3<<4 | h.Version&15
	if h.Solicited {
		flags |= 0x80
	}
	if h.Migrated {
		flags |= 0x40
	}
	last := h.PSN & Mask24
	if h.AckReq {
		last |= 1 << 31
	}
	b = append(b, uint8(h.Opcode), flags)
	b = be.AppendUint16(b, h.PKey)
	b = be.AppendUint32(b, h.DestQP&Mask24)
	return be.AppendUint32(b, last)
}

// ParseBTH parses the header at the start of b and returns the rest.
func ParseBTH(b []byte) (h BTH, rest []byte, err error) {
	if len(b) < BTHLen {
		return BTH{}, nil, fmt.Errorf("%w: %d of %d bytes of a BTH", ErrShort, len(b), BTHLen)
	}
	last := be.Uint32(b[8:])
	return BTH{
		Opcode:    Opcode(b[0]),
		Solicited: b[1]&0x80 != 0,
		Migrated:  b[1]&0x40 != 0,
		Pad:       b[1] >> 4 & 3,
		Version:   b[1] & 15,
		PKey:      be.Uint16(b[2:]),
		DestQP:    be.Uint32(b[4:]) & Mask24,
		AckReq:    last>>31 != 0,
		PSN:       last & Mask24,
	}, b[BTHLen:], nil
}

// NextPSN returns the PSN after psn, modulo 2^24.
func NextPSN(psn uint32) uint32 { return (psn + 1) & Mask24 }
