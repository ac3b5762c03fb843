package rdmap

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// Layers in a Terminate message (RFC 5040, Section 4.8, Figure 9).
const (
	LayerRDMA = 0x0
	LayerDDP  = 0x1
	LayerLLP  = 0x2 // MPA
)

// Error types for LayerRDMA.
const (
	TypeCatastrophic = 0x0 // local; the code has no meaning
	TypeProtection   = 0x1 // Remote Protection Error
	TypeOperation    = 0x2 // Remote Operation Error
)

// An Error is the error that a Terminate message reports, for any of the three
// layers. It is comparable, for errors.Is, and equals the ddp.Error or
// mpa.Error with the same number in their layers.
type Error struct {
	Layer uint8 // 4 bits
	Type  uint8 // 4 bits
	Code  uint8
}

// RDMAP's own errors (RFC 5040, Section 4.8, Figure 9).
var (
	ErrCatastrophic = Error{LayerRDMA, TypeCatastrophic, 0x00} // a local fault

	ErrInvalidSTag      = Error{LayerRDMA, TypeProtection, 0x00}
	ErrBounds           = Error{LayerRDMA, TypeProtection, 0x01}
	ErrAccess           = Error{LayerRDMA, TypeProtection, 0x02}
	ErrSTagStream       = Error{LayerRDMA, TypeProtection, 0x03}
	ErrTOWrap           = Error{LayerRDMA, TypeProtection, 0x04}
	ErrCannotInvalidate = Error{LayerRDMA, TypeProtection, 0x09}

	ErrVersion     = Error{LayerRDMA, TypeOperation, 0x05}
	ErrOpcode      = Error{LayerRDMA, TypeOperation, 0x06}
	ErrStream      = Error{LayerRDMA, TypeOperation, 0x07} // catastrophic, for the stream
	ErrUnspecified = Error{LayerRDMA, TypeOperation, 0xff}
)

var names = map[Error]string{
	ErrInvalidSTag:                    "RDMAP remote protection error: invalid STag",
	ErrBounds:                         "RDMAP remote protection error: base or bounds violation",
	ErrAccess:                         "RDMAP remote protection error: access rights violation",
	ErrSTagStream:                     "RDMAP remote protection error: STag not associated with RDMAP stream",
	ErrTOWrap:                         "RDMAP remote protection error: TO wrap",
	ErrCannotInvalidate:               "RDMAP remote protection error: STag cannot be invalidated",
	{LayerRDMA, TypeProtection, 0xff}: "RDMAP remote protection error: unspecified",
	ErrVersion:                        "RDMAP remote operation error: invalid RDMAP version",
	ErrOpcode:                         "RDMAP remote operation error: unexpected opcode",
	ErrStream:                         "RDMAP remote operation error: catastrophic error of the stream",
	{LayerRDMA, TypeOperation, 0x08}:  "RDMAP remote operation error: catastrophic error, global",
	{LayerRDMA, TypeOperation, 0x09}:  "RDMAP remote operation error: STag cannot be invalidated",
	ErrUnspecified:                    "RDMAP remote operation error: unspecified",
}

// Error describes the layer, the type and the code.
func (e Error) Error() string {
	switch {
	case e.Layer == LayerDDP:
		return ddp.Error{Type: e.Type, Code: e.Code}.Error()
	case e.Layer == LayerLLP && e.Type == 0:
		return mpa.Error(e.Code).Error()
	case e.Layer == LayerRDMA && e.Type == TypeCatastrophic:
		return "RDMAP local catastrophic error"
	}
	if name, ok := names[e]; ok {
		return name
	}
	return fmt.Sprintf("error: layer %#x, type %#x, code %#02x", e.Layer, e.Type, e.Code)
}

// Defined reports whether a standard defines the number.
func (e Error) Defined() bool {
	switch {
	case e.Layer == LayerDDP:
		return ddp.Error{Type: e.Type, Code: e.Code}.Defined()
	case e.Layer == LayerLLP:
		return e.Type == 0 && mpa.Error(e.Code).Defined()
	case e.Layer == LayerRDMA && e.Type == TypeCatastrophic:
		return true
	}
	_, ok := names[e]
	return ok
}

// Is reports whether target is the DDP or MPA error with e's number.
func (e Error) Is(target error) bool {
	switch t := target.(type) {
	case ddp.Error:
		return e == fromDDP(t)
	case mpa.Error:
		return e == fromMPA(t)
	}
	return false
}

func fromDDP(e ddp.Error) Error { return Error{LayerDDP, e.Type, e.Code} }
func fromMPA(e mpa.Error) Error { return Error{LayerLLP, 0, uint8(e)} }

// ErrorOf is the only function that converts an error to the error in a
// Terminate message. Faults by the peer that have no number of their own
// (ddp.ErrShort, ErrLength) become ErrUnspecified; every other error is a local
// fault: ErrCatastrophic.
func ErrorOf(err error) Error {
	var (
		own   Error
		ofDDP ddp.Error
		ofMPA mpa.Error
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &ofDDP):
		return fromDDP(ofDDP)
	case errors.As(err, &ofMPA):
		return fromMPA(ofMPA)
	case errors.Is(err, ddp.ErrShort), errors.Is(err, ErrLength):
		return ErrUnspecified
	}
	return ErrCatastrophic
}

// terminateHeaders reports which headers from the segment at fault, if any, a Terminate
// message for e carries (RFC 5040, Section 4.8, Figure 10): its length and DDP
// header, and, if it is an RDMA Read Request, its RDMAP header.
//
// Figure 10 gives Remote Operation Errors no RDMAP header, and Section 7.1,
// rule 3, gives a header to each error in a Read Request that was delivered.
// Both hold: a message with another version or opcode is not known to be a Read
// Request, and a message with another length has no complete header. Errors
// that DDP detects precede the delivery.
func (e Error) terminateHeaders() (ddpHeader, rdmapHeader bool) {
	switch {
	case e.Layer == LayerRDMA:
		return e.Type != TypeCatastrophic, e.Type == TypeProtection
	case e.Layer == LayerDDP:
		return e.Type != ddp.TypeCatastrophic, false
	}
	return false, false
}
