package rpcrdma

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// Errors in a call whose header is valid.
var (
	errNoCall       = errors.New("no chunk has the RPC message")
	errTwoCalls     = errors.New("an RPC message inline and in a chunk at position zero")
	errInHeader     = errors.New("a chunk in the header of the RPC message")
	errFailedBefore = errors.New("its chunks have terminated a connection before")
	errTooLong      = errors.New("chunks longer than this end accepts")
	errReplyTooLong = errors.New("no space for the reply")
)

// Causes that terminate a connection.
var (
	errStalled = errors.New("rpcrdma: peer does not complete posted work")
	errSlow    = fmt.Errorf("%w: other calls wait for memory, and this peer is too slow to send its calls' chunks", ErrBound)
	errNoReply = errors.New("rpcrdma: reply cannot be sent")
	errPull    = errors.New("rpcrdma: RDMA Read failed")
)

// answerFor is the only place that maps an error in a call's header or chunks
// to an RDMA_ERROR. It returns false if the message must be dropped without a
// reply.
func answerFor(err error) (wire.ErrCode, bool) {
	switch {
	case errors.Is(err, wire.ErrRunt): // its XID cannot be trusted: Section 4.5
		return 0, false
	case errors.Is(err, wire.ErrDiscard): // Sections 4.2.4 and 4.6.2
		return 0, false
	case errors.Is(err, wire.ErrVersion): // Section 4.5.1
		return wire.ErrVers, true
	default: // Sections 4.5.2 and 4.5.3
		return wire.ErrChunk, true
	}
}
