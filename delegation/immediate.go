package delegation

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A Kind is an Immediate's kind.
type Kind uint8

// The kinds of Immediate Data.
const (
	KindRecall   Kind = 1 // server to client: return the grant
	KindReturned Kind = 2 // client to server: nothing more is served under the grant
)

// String returns the specification's name of the kind.
func (k Kind) String() string {
	switch k {
	case KindRecall:
		return "recall"
	case KindReturned:
		return "returned"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// ErrKind is the error for Immediate Data with a kind that the receiver does
// not accept.
var ErrKind = errors.New("delegation: Immediate Data with a wrong kind")

// An Immediate is a message in Immediate Data, 8 bytes long (RFC 7306, Section
// 6).
//
//	 0      1            4                8
//	+------+------------+----------------+
//	| kind | slot       | generation     |
//	+------+------------+----------------+
type Immediate struct {
	Kind       Kind
	Slot       uint32 // 24 bits
	Generation uint32
}

// Bytes returns m's wire form.
func (m Immediate) Bytes() (b [8]byte) {
	binary.BigEndian.PutUint32(b[:], uint32(m.Kind)<<24|m.Slot&(maxSlots-1))
	binary.BigEndian.PutUint32(b[4:], m.Generation)
	return b
}

// ParseImmediate decodes b, which must have the given kind. The error wraps
// ErrKind.
func ParseImmediate(b [8]byte, kind Kind) (Immediate, error) {
	head := binary.BigEndian.Uint32(b[:])
	m := Immediate{Kind: Kind(head >> 24), Slot: head & (maxSlots - 1), Generation: binary.BigEndian.Uint32(b[4:])}
	if m.Kind != kind {
		return Immediate{}, fmt.Errorf("%w: %v instead of %v", ErrKind, m.Kind, kind)
	}
	return m, nil
}
