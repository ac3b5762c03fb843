package packet

import "fmt"

// An Opcode is BTH:OpCode: the transport service in the upper three bits, and
// the packet's role in its message in the lower five (table 38).
type Opcode uint8

// A Service is the upper three bits of an Opcode.
type Service uint8

// The transport services.
const (
	RC Service = 0x00 // Reliable Connection
	UC Service = 0x20 // Unreliable Connection
	RD Service = 0x40 // Reliable Datagram
	UD Service = 0x60 // Unreliable Datagram
)

// The opcodes for Unreliable Connection and Unreliable Datagram.
const (
	UCSendFirst         Opcode = 0x20
	UCSendMiddle        Opcode = 0x21
	UCSendLast          Opcode = 0x22
	UCSendLastImmediate Opcode = 0x23
	UCSendOnly          Opcode = 0x24
	UCSendOnlyImmediate Opcode = 0x25

	UCWriteFirst         Opcode = 0x26
	UCWriteMiddle        Opcode = 0x27
	UCWriteLast          Opcode = 0x28
	UCWriteLastImmediate Opcode = 0x29
	UCWriteOnly          Opcode = 0x2a
	UCWriteOnlyImmediate Opcode = 0x2b

	UDSendOnly          Opcode = 0x64
	UDSendOnlyImmediate Opcode = 0x65
)

// opcodeInfo describes the packets with an opcode.
type opcodeInfo struct {
	name                            string
	starts, ends, write, imm, known bool
}

var opcodes = [256]opcodeInfo{
	UCSendFirst:          {"UC SEND First", true, false, false, false, true},
	UCSendMiddle:         {"UC SEND Middle", false, false, false, false, true},
	UCSendLast:           {"UC SEND Last", false, true, false, false, true},
	UCSendLastImmediate:  {"UC SEND Last with Immediate", false, true, false, true, true},
	UCSendOnly:           {"UC SEND Only", true, true, false, false, true},
	UCSendOnlyImmediate:  {"UC SEND Only with Immediate", true, true, false, true, true},
	UCWriteFirst:         {"UC RDMA WRITE First", true, false, true, false, true},
	UCWriteMiddle:        {"UC RDMA WRITE Middle", false, false, true, false, true},
	UCWriteLast:          {"UC RDMA WRITE Last", false, true, true, false, true},
	UCWriteLastImmediate: {"UC RDMA WRITE Last with Immediate", false, true, true, true, true},
	UCWriteOnly:          {"UC RDMA WRITE Only", true, true, true, false, true},
	UCWriteOnlyImmediate: {"UC RDMA WRITE Only with Immediate", true, true, true, true, true},
	UDSendOnly:           {"UD SEND Only", true, true, false, false, true},
	UDSendOnlyImmediate:  {"UD SEND Only with Immediate", true, true, false, true, true},
}

// UCOpcode returns the opcode for an Unreliable Connection packet by its place
// in the message (table 56). Only the last packet of a message may carry
// immediate data.
func UCOpcode(write, starts, ends, immediate bool) Opcode {
	op := UCSendFirst
	if write {
		op = UCWriteFirst
	}
	switch {
	case starts && ends:
		op += UCSendOnly - UCSendFirst
	case ends:
		op += UCSendLast - UCSendFirst
	case !starts:
		op += UCSendMiddle - UCSendFirst
	}
	if ends && immediate {
		op++
	}
	return op
}

// Service returns the transport service.
func (o Opcode) Service() Service { return Service(o & 0xe0) }

// Known reports whether the opcode is listed above. Other opcodes are reserved,
// or belong to a service or function that this package does not implement.
func (o Opcode) Known() bool { return opcodes[o].known }

// Starts reports whether the packet is a "first" or "only" packet.
func (o Opcode) Starts() bool { return opcodes[o].starts }

// Ends reports whether the packet is a "last" or "only" packet.
func (o Opcode) Ends() bool { return opcodes[o].ends }

// Write reports whether the packet belongs to an RDMA WRITE.
func (o Opcode) Write() bool { return opcodes[o].write }

// Immediate reports whether the packet carries immediate data.
func (o Opcode) Immediate() bool { return opcodes[o].imm }

// String returns the Architecture's name.
func (o Opcode) String() string {
	if k := opcodes[o]; k.known {
		return k.name
	}
	return fmt.Sprintf("Opcode(%#02x)", uint8(o))
}
