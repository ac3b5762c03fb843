package mpa

import (
	"errors"
	"fmt"
)

// An Error is an MPA error number (RFC 5044, Section 8, and RFC 6581, Section
// 8). A Terminate message carries it as the code for layer 2, type 0.
type Error uint8

// The MPA errors.
const (
	ErrClosed    Error = 0x01 // TCP connection closed, terminated, or lost
	ErrCRC       Error = 0x02 // the received CRC does not match the FPDU
	ErrFPDUStart Error = 0x03 // Marker and ULPDU_Length disagree on an FPDU's start
	ErrFrame     Error = 0x04 // invalid Request or Reply frame
	ErrLocal     Error = 0x05 // local catastrophic error
	ErrIRD       Error = 0x06 // insufficient IRD resources
	ErrRTR       Error = 0x07 // no matching RTR option
)

// Error describes the error.
func (e Error) Error() string {
	switch e {
	case ErrClosed:
		return "MPA error: TCP connection closed, terminated or lost"
	case ErrCRC:
		return "MPA error: CRC mismatch"
	case ErrFPDUStart:
		return "MPA error: Marker and ULPDU length disagree"
	case ErrFrame:
		return "MPA error: invalid request or reply frame"
	case ErrLocal:
		return "MPA error: local catastrophic error"
	case ErrIRD:
		return "MPA error: insufficient IRD resources"
	case ErrRTR:
		return "MPA error: no matching RTR option"
	}
	return fmt.Sprintf("MPA error: code %#02x", uint8(e))
}

// Defined reports whether a standard defines the number.
func (e Error) Defined() bool { return e >= ErrClosed && e <= ErrRTR }

// Errors in a start-up frame. All of these wrap ErrFrame, and the connection
// must be closed immediately (RFC 5044, Section 8).
var (
	ErrShort       = fmt.Errorf("%w: truncated frame", ErrFrame)
	ErrKey         = fmt.Errorf("%w: not an MPA key", ErrFrame)
	ErrInitiator   = fmt.Errorf("%w: both ends are initiators", ErrFrame)
	ErrResponder   = fmt.Errorf("%w: both ends are responders", ErrFrame)
	ErrRevision    = fmt.Errorf("%w: unknown revision", ErrFrame)
	ErrPrivateData = fmt.Errorf("%w: private data of wrong length", ErrFrame)
	ErrEnhanced    = fmt.Errorf("%w: request and reply are not both enhanced", ErrFrame)
)

// ErrRejected reports that the responder rejected the connection (RFC 5044,
// Section 7.1.1, bit R).
var ErrRejected = errors.New("MPA: connection rejected by peer")
