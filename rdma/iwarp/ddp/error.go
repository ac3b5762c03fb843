package ddp

import (
	"errors"
	"fmt"
)

// ErrShort reports that a segment is shorter than its header. RFC 5041 has no
// number for this error.
var ErrShort = errors.New("DDP: segment shorter than its header")

// An Error is a DDP error number (RFC 5041, Section 7.2). A Terminate message
// carries it as type and code for layer 1. It is comparable, for errors.Is.
type Error struct {
	Type uint8 // 4 bits
	Code uint8
}

// Error types.
const (
	TypeCatastrophic = 0x0
	TypeTagged       = 0x1
	TypeUntagged     = 0x2
)

// The errors in RFC 5041, Section 7.2.
var (
	ErrCatastrophic    = Error{TypeCatastrophic, 0x00} // a local fault
	ErrInvalidSTag     = Error{TypeTagged, 0x00}       // unknown, or not writable (see Buffer)
	ErrBounds          = Error{TypeTagged, 0x01}       // outside the tagged buffer
	ErrSTagStream      = Error{TypeTagged, 0x02}       // the STag belongs to another stream
	ErrTOWrap          = Error{TypeTagged, 0x03}       // TO plus length exceeds 64 bits
	ErrTaggedVersion   = Error{TypeTagged, 0x04}       // DV is not 1
	ErrInvalidQN       = Error{TypeUntagged, 0x01}     // no such queue
	ErrNoBuffer        = Error{TypeUntagged, 0x02}     // no buffer for the message
	ErrMSNRange        = Error{TypeUntagged, 0x03}     // the MSN is not the next one
	ErrInvalidMO       = Error{TypeUntagged, 0x04}     // the MO is not the next one
	ErrTooLong         = Error{TypeUntagged, 0x05}     // the message exceeds its buffer
	ErrUntaggedVersion = Error{TypeUntagged, 0x06}     // DV is not 1
)

// Error describes the error.
func (e Error) Error() string {
	if e.Type == TypeCatastrophic { // codes have no meaning here
		return "DDP local catastrophic error"
	}
	if name, ok := names[e]; ok {
		return name
	}
	return fmt.Sprintf("DDP error: type %#x, code %#02x", e.Type, e.Code)
}

var names = map[Error]string{
	ErrInvalidSTag:     "DDP tagged buffer error: invalid STag",
	ErrBounds:          "DDP tagged buffer error: base or bounds violation",
	ErrSTagStream:      "DDP tagged buffer error: STag not associated with DDP stream",
	ErrTOWrap:          "DDP tagged buffer error: TO wrap",
	ErrTaggedVersion:   "DDP tagged buffer error: invalid DDP version",
	ErrInvalidQN:       "DDP untagged buffer error: invalid QN",
	ErrNoBuffer:        "DDP untagged buffer error: invalid MSN, no buffer available",
	ErrMSNRange:        "DDP untagged buffer error: invalid MSN, out of range",
	ErrInvalidMO:       "DDP untagged buffer error: invalid MO",
	ErrTooLong:         "DDP untagged buffer error: message too long for available buffer",
	ErrUntaggedVersion: "DDP untagged buffer error: invalid DDP version",
}

// Defined reports whether RFC 5041 defines the number.
func (e Error) Defined() bool {
	_, ok := names[e]
	return ok || e.Type == TypeCatastrophic
}
