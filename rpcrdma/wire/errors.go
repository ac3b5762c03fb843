package wire

import (
	"errors"
	"fmt"
)

// An ErrCode is the reason in an RDMA_ERROR (RFC 8166, Section 4.1.2).
type ErrCode uint32

// String returns the name that RFC 8166 uses.
func (c ErrCode) String() string {
	switch c {
	case ErrVers:
		return "ERR_VERS"
	case ErrChunk:
		return "ERR_CHUNK"
	}
	return fmt.Sprintf("ErrCode(%d)", uint32(c))
}

// The error codes.
const (
	ErrVers  ErrCode = 1 // the version is not supported; the range follows
	ErrChunk ErrCode = 2 // the header or its chunks cannot be used
)

// A HeaderError reports a transport header that the receiver rejects.
type HeaderError struct {
	XID    uint32
	Field  string // name in RFC 8166's XDR, Section 4.1.2
	Offset int    // field offset from the header's start, in bytes
	Err    error
}

// Error returns the position and the cause.
func (e *HeaderError) Error() string {
	return fmt.Sprintf("rpcrdma: xid %#08x: %s at byte %d: %v", e.XID, e.Field, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *HeaderError) Unwrap() error { return e.Err }

// Header errors.
var (
	// ErrRunt means that the message is shorter than any header.
	ErrRunt = errors.New("shorter than any header")
	// ErrVersion means that the version is not Version.
	ErrVersion = errors.New("version not supported")
	// ErrProc means that the procedure is not known.
	ErrProc = errors.New("procedure not known")
	// ErrDiscard means that a responder must drop the message.
	ErrDiscard = errors.New("procedure that a responder discards")
	// ErrXID means that header and RPC message have different XIDs.
	ErrXID = errors.New("XID differs from the RPC message's")
)
