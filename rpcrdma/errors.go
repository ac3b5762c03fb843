package rpcrdma

import (
	"errors"
	"fmt"
)

// An ErrCode is the reason that an RDMA_ERROR gives (RFC 8166, Section
// 4.1.2).
type ErrCode uint32

// The error codes.
const (
	ErrVers  ErrCode = 1 // the version is not supported; the range follows
	ErrChunk ErrCode = 2 // the header or its chunks cannot be used
)

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

// A HeaderError is a transport header that this end does not take.
type HeaderError struct {
	XID    uint32
	Field  string // its name in the XDR of RFC 8166, Section 4.1.2
	Offset int    // of the field from the header's start, in octets
	Err    error
}

// Error returns the place and the cause.
func (e *HeaderError) Error() string {
	return fmt.Sprintf("rpcrdma: xid %#08x: %s at octet %d: %v", e.XID, e.Field, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *HeaderError) Unwrap() error { return e.Err }

// What is wrong with a header, or with a call whose header is sound.
var (
	errRunt     = errors.New("shorter than any header")
	errVersion  = errors.New("version not supported")
	errProc     = errors.New("procedure not known")
	errDiscard  = errors.New("procedure that a responder discards")
	errXID      = errors.New("XID differs from that of the RPC message")
	errNoCall   = errors.New("no chunk holds the RPC message")
	errTwoCalls = errors.New("an RPC message inline and in a chunk at position zero")
	errInHeader = errors.New("a chunk where the RPC message has its header")
	errBlamed   = errors.New("its chunks have ended a connection before")
	errTooLong  = errors.New("chunks longer than this end takes")
	errNoRoom   = errors.New("no room for the reply")
)

// What ends a connection.
var (
	errStalled = errors.New("rpcrdma: peer leaves posted work undone")
	errSlow    = fmt.Errorf("%w: others wait for memory, and this peer takes too long to send what its calls hold some for", ErrBound)
	errNoReply = errors.New("rpcrdma: reply cannot be sent")
	errPull    = errors.New("rpcrdma: RDMA Read failed")
)

// answerFor is the one place where an error of a call's header or chunks
// becomes an answer, or reports false where the message is dropped without
// one.
func answerFor(err error) (ErrCode, bool) {
	switch {
	case errors.Is(err, errRunt): // its XID cannot be trusted: Section 4.5
		return 0, false
	case errors.Is(err, errDiscard): // Sections 4.2.4 and 4.6.2
		return 0, false
	case errors.Is(err, errVersion): // Section 4.5.1
		return ErrVers, true
	default: // Sections 4.5.2 and 4.5.3
		return ErrChunk, true
	}
}
