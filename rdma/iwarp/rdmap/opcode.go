package rdmap

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
)

// The untagged queues (RFC 5040, Section 3.1; RFC 7306, Section 10.2).
const (
	QueueSend      = 0 // all kinds of Send, and Immediate Data
	QueueRead      = 1 // RDMA Read Requests and Atomic Requests
	QueueTerminate = 2 // Terminate
	QueueAtomic    = 3 // Atomic Responses
)

// An Opcode is an RDMA message's kind (RFC 5040, Section 4.1, Figure 4; RFC
// 7306, Section 4.1, Figure 2).
type Opcode uint8

// The opcodes in RFC 5040 and RFC 7306. SE means with Solicited Event.
const (
	OpWrite Opcode = iota
	OpReadRequest
	OpReadResponse
	OpSend
	OpSendInvalidate
	OpSendSE
	OpSendSEInvalidate
	OpTerminate
	OpImmediate
	OpImmediateSE
	OpAtomicRequest
	OpAtomicResponse
	Opcodes = iota // their number
)

// kinds holds the figures' content: the DDP fields that each message uses.
var kinds = [...]struct {
	name   string
	tagged bool
	queue  uint32
}{
	OpWrite:            {name: "RDMA Write", tagged: true},
	OpReadRequest:      {name: "RDMA Read Request", queue: QueueRead},
	OpReadResponse:     {name: "RDMA Read Response", tagged: true},
	OpSend:             {name: "Send", queue: QueueSend},
	OpSendInvalidate:   {name: "Send with Invalidate", queue: QueueSend},
	OpSendSE:           {name: "Send with SE", queue: QueueSend},
	OpSendSEInvalidate: {name: "Send with SE and Invalidate", queue: QueueSend},
	OpTerminate:        {name: "Terminate", queue: QueueTerminate},
	OpImmediate:        {name: "Immediate Data", queue: QueueSend},
	OpImmediateSE:      {name: "Immediate Data with SE", queue: QueueSend},
	OpAtomicRequest:    {name: "Atomic Request", queue: QueueRead},
	OpAtomicResponse:   {name: "Atomic Response", queue: QueueAtomic},
}

// String returns the name that the RFCs use.
func (o Opcode) String() string {
	if int(o) < len(kinds) {
		return kinds[o].name
	}
	return fmt.Sprintf("opcode %d", uint8(o))
}

// SendOpcode returns the opcode for a Send.
func SendOpcode(invalidate, solicited bool) Opcode {
	switch {
	case invalidate && solicited:
		return OpSendSEInvalidate
	case invalidate:
		return OpSendInvalidate
	case solicited:
		return OpSendSE
	}
	return OpSend
}

// ImmediateOpcode returns the opcode for Immediate Data.
func ImmediateOpcode(solicited bool) Opcode {
	if solicited {
		return OpImmediateSE
	}
	return OpImmediate
}

// Extension reports whether the message is defined by RFC 7306. A peer that
// implements only RFC 5040 does not know such a message.
func (o Opcode) Extension() bool { return o >= OpImmediate && o <= OpAtomicResponse }

// Immediate reports whether the message is Immediate Data.
func (o Opcode) Immediate() bool { return o == OpImmediate || o == OpImmediateSE }

// Tagged reports whether the message uses the tagged buffer model.
func (o Opcode) Tagged() bool { return int(o) < len(kinds) && kinds[o].tagged }

// Invalidates reports whether the message carries an Invalidate STag.
func (o Opcode) Invalidates() bool { return o == OpSendInvalidate || o == OpSendSEInvalidate }

// Solicited reports whether the message requests an event at the peer.
func (o Opcode) Solicited() bool {
	return o == OpSendSE || o == OpSendSEInvalidate || o == OpImmediateSE
}

// The control byte: RV(2) Rsv(2) opcode(4). Rsv is sent as zero and not checked
// (RFC 5040, Section 4.1).
const (
	version      = 0x1
	versionShift = 6
	opcodeMask   = 0x0f
)

func controlByte(op Opcode) uint8 { return version<<versionShift | uint8(op) }

// parseControl accepts only version 1. Version 0, by the RDMA Consortium,
// belongs to a different MPA, which is not supported here (RFC 5044, Appendix
// C.1).
func parseControl(b uint8) (Opcode, error) {
	if b>>versionShift != version {
		return 0, ErrVersion
	}
	op := Opcode(b & opcodeMask)
	if int(op) >= len(kinds) {
		return 0, ErrOpcode
	}
	return op, nil
}

// CheckTagged returns the opcode of the tagged segment with header h: OpWrite
// or OpReadResponse. The error is ErrVersion or ErrOpcode.
func CheckTagged(h ddp.Tagged) (Opcode, error) {
	op, err := parseControl(h.RsvdULP)
	if err == nil && !op.Tagged() {
		return 0, ErrOpcode
	}
	return op, err
}

// CheckUntagged returns the opcode of the untagged segment with header h. The
// opcode belongs to the segment's queue. The error is ddp.ErrInvalidQN,
// ErrVersion or ErrOpcode.
func CheckUntagged(h ddp.Untagged) (Opcode, error) {
	if h.QN > QueueAtomic {
		return 0, ddp.ErrInvalidQN
	}
	op, err := parseControl(h.RsvdULP)
	if err == nil && (op.Tagged() || kinds[op].queue != h.QN) {
		return 0, ErrOpcode
	}
	return op, err
}

// InvalidateSTag returns the STag that a Send with an Invalidates opcode
// requests to invalidate. In other messages the field has no meaning.
func InvalidateSTag(h ddp.Untagged) rdma.STag { return rdma.STag(h.RsvdULP4) }

// AppendTagged appends the header for a segment with op, an RDMA Write or an
// RDMA Read Response, whose payload goes to offset to in the peer's buffer. A
// Read Response's STag is copied from the request, uninterpreted (RFC 5040,
// Section 4.4).
func AppendTagged(b []byte, op Opcode, last bool, stag rdma.STag, to uint64) []byte {
	return ddp.Tagged{Last: last, RsvdULP: controlByte(op), STag: stag, TO: to}.AppendTo(b)
}

// AppendUntagged appends the header for a segment with op, any other opcode,
// and op's queue. The Invalidate STag is sent as zero unless op.Invalidates().
// The caller must append a Send's payload, or another message's complete body,
// which has one segment.
func AppendUntagged(b []byte, op Opcode, last bool, invalidate rdma.STag, msn, mo uint32) []byte {
	if !op.Invalidates() {
		invalidate = 0
	}
	return ddp.Untagged{
		Last:     last,
		RsvdULP:  controlByte(op),
		RsvdULP4: uint32(invalidate),
		QN:       kinds[op].queue,
		MSN:      msn,
		MO:       mo,
	}.AppendTo(b)
}
