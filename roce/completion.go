package roce

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A WR is one work request for a send queue.
type WR struct {
	// Op is rdma.OpSend, or for UC rdma.OpWrite.
	Op rdma.Op

	// Data is the message, gathered in order. It is the queue pair's until
	// Post returns.
	Data [][]byte

	// Remote is the sink of an RDMA WRITE: the peer's R_Key and address.
	Remote rdma.Remote

	// Immediate reaches the peer's completion where WithImmediate is set. An
	// RDMA WRITE with it takes one of the peer's receives.
	Immediate     uint32
	WithImmediate bool

	// Solicited asks for the attention of the peer's client.
	Solicited bool

	// To is where a datagram of UD goes.
	To Destination

	// Done, if not nil, is told of the completion, with ID.
	Done Completer
	ID   uint64
}

// A Recv is a work request for a receive queue: memory for one message. Of UD
// the first GRHLen bytes are for the sender's address.
type Recv struct {
	Data []byte // the queue pair's until the receive completes
	ID   uint64
}

// A Completion tells the fate of one work request.
type Completion struct {
	QP uint32 // the local queue pair's number
	ID uint64

	// Received tells a receive from what this end has posted to send. Op is
	// the sender's operation; an RDMA WRITE takes a receive where it brings
	// immediate data.
	Received bool
	Op       rdma.Op

	// Err is nil, rdma.ErrFlushed, or the local error that ended the queue
	// pair. Of a send, nil says that it has been handed over to the wire: of
	// what became of it there, nobody knows.
	Err error

	// Of a receive: the bytes that came, for UD with GRHLen in front; of an
	// RDMA WRITE those in the region.
	Octets        int
	Immediate     uint32
	WithImmediate bool
	Solicited     bool
	From          Source // of UD
}

// A Source is who sent a datagram.
type Source struct {
	Addr      netip.Addr
	QP        uint32
	Multicast bool // it was sent to a group
}

// A Completer takes completions. Of sends, Complete is called by Post, before it
// returns; of receives by the goroutine that reads the wire. It must be short,
// and may post further work.
type Completer interface {
	Complete(Completion)
}

// A CompletionQueue is a Completer that keeps completions until they are polled
// or waited for.
type CompletionQueue = rdma.CQ[Completion]

// NewCompletionQueue returns a queue with room for so many completions.
func NewCompletionQueue(room int) *CompletionQueue { return rdma.NewCQ[Completion](room) }
