package cmpriv

import (
	"bytes"
	"encoding/binary"
	"math"
)

// ExtensionLen is the length of this project's version 1 block, in bytes.
const ExtensionLen = 24

const (
	extensionIdentifier = 0x6e667278
	extensionVersion    = 1

	flagImmediate  = 0x01
	flagAtomics    = 0x02
	flagDelegation = 0x04 // the other five bits are sent as zero and ignored
)

// wireExtension is the identifier's wire form.
var wireExtension = binary.BigEndian.AppendUint32(nil, extensionIdentifier)

// An Extension is this project's block, which follows the RFC 8797 message.
// Peers that do not support the block ignore it, so each end may send it
// without knowing the other. The zero value offers nothing, and only identifies
// its sender as this project.
type Extension struct {
	Immediate  bool // the sender accepts Immediate Data (RFC 7306, Section 6)
	Atomics    bool // a client uses, or a server executes, atomic operations (Section 5)
	Delegation bool // the sender supports delegation counters

	// ImmediateRecvs is the number of receives that the sender always has
	// posted beyond those for calls and replies in both directions; up to
	// 65535, and 0 if the sender accepts no Immediate Data.
	ImmediateRecvs int

	// CounterSTag and CounterTO are the address of the server's counters, and
	// CounterSlots is their number, in words of 8 bytes. They are all zero in a
	// client's block.
	CounterSTag  uint32
	CounterTO    uint64
	CounterSlots uint32
}

// AppendTo appends e's wire form to b, which must end with a Message.
func (e *Extension) AppendTo(b []byte) []byte {
	var flags uint8
	for _, f := range [...]struct {
		on  bool
		bit uint8
	}{{e.Immediate, flagImmediate}, {e.Atomics, flagAtomics}, {e.Delegation, flagDelegation}} {
		if f.on {
			flags |= f.bit
		}
	}
	b = append(b, wireExtension...)
	b = append(b, extensionVersion, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(min(max(e.ImmediateRecvs, 0), math.MaxUint16)))
	b = binary.BigEndian.AppendUint32(b, e.CounterSTag)
	b = binary.BigEndian.AppendUint64(b, e.CounterTO)
	return binary.BigEndian.AppendUint32(b, e.CounterSlots)
}

// ParseExtension looks for a block at any offset after the message in the
// private data b. It returns false, and the zero value, if there is no message
// or no block after it, or if the block is truncated or has another version.
func ParseExtension(b []byte) (e Extension, ok bool) {
	if _, ok := Parse(b); !ok {
		return Extension{}, false
	}
	b = b[bytes.Index(b, wireIdentifier)+Len:]
	at := bytes.Index(b, wireExtension)
	if at < 0 || len(b)-at < ExtensionLen || b[at+4] != extensionVersion {
		return Extension{}, false
	}
	b = b[at : at+ExtensionLen]
	return Extension{
		Immediate:      b[5]&flagImmediate != 0,
		Atomics:        b[5]&flagAtomics != 0,
		Delegation:     b[5]&flagDelegation != 0,
		ImmediateRecvs: int(binary.BigEndian.Uint16(b[6:])),
		CounterSTag:    binary.BigEndian.Uint32(b[8:]),
		CounterTO:      binary.BigEndian.Uint64(b[12:]),
		CounterSlots:   binary.BigEndian.Uint32(b[20:]),
	}, true
}
