package roce

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A WR is one work request for a send queue.
type WR struct {
	// Op is rdma.OpSend, or for UC rdma.OpWrite.
	Op rdma.Op

	// Data is the message, gathered in order. The queue pair owns Data until
	// Post returns.
	Data [][]byte

	// Remote is an RDMA WRITE's sink: the peer's R_Key and address.
	Remote rdma.Remote

	// Immediate reaches the peer's completion if WithImmediate is set. An RDMA
	// WRITE with immediate data uses one of the peer's receives.
	Immediate     uint32
	WithImmediate bool

	// Solicited requests an event at the peer's client.
	Solicited bool

	// To is a UD datagram's destination.
	To Destination

	// Done, if not nil, receives the completion, with ID.
	Done Completer
	ID   uint64
}

// A Recv is a work request for a receive queue: memory for one message. In UD
// the first GRHLen bytes hold the sender's address.
type Recv struct {
	Data []byte // the queue pair owns Data until the receive completes
	ID   uint64
}

// A Completion reports a work request's result.
type Completion struct {
	QP uint32 // the local queue pair's number
	ID uint64

	// Received distinguishes a receive from this end's own sends. Op is the
	// sender's operation; an RDMA WRITE uses a receive only if it carries
	// immediate data.
	Received bool
	Op       rdma.Op

	// Err is nil, rdma.ErrFlushed, or the local error that ended the queue
	// pair. For a send, nil means only that the wire has accepted the message:
	// whether it arrives is unknown.
	Err error

	// For a receive: the number of received bytes, in UD with GRHLen; for an
	// RDMA WRITE the bytes in the region.
	Bytes         int
	Immediate     uint32
	WithImmediate bool
	Solicited     bool
	From          Source // UD only
}

// A Source is a datagram's sender.
type Source struct {
	Addr      netip.Addr
	QP        uint32
	Multicast bool // it was sent to a group
}

// A Completer receives completions. Post calls Complete for sends, before Post
// returns; the goroutine that reads the wire calls Complete for receives.
// Complete must be short, and may post further work.
type Completer interface {
	Complete(Completion)
}

// A CompletionQueue is a Completer that keeps completions until a caller polls
// or waits for them.
type CompletionQueue = rdma.CQ[Completion]

// NewCompletionQueue returns a queue that holds capacity completions.
func NewCompletionQueue(capacity int) *CompletionQueue { return rdma.NewCQ[Completion](capacity) }
