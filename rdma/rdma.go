package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/nfsrdma/nfsrdma/buf"
)

// An STag names registered memory to the peer (RFC 5040, Section 1.3). The
// InfiniBand verbs call it an R_key, RFC 8166 a handle.
type STag uint32

// String returns the tag as eight hexadecimal digits.
func (s STag) String() string { return fmt.Sprintf("%#08x", uint32(s)) }

// Access says what the peer may do with a memory region.
type Access uint8

// The rights of a region; they may be combined.
const (
	RemoteRead   Access = 1 << iota // the peer may issue RDMA Reads
	RemoteWrite                     // the peer may issue RDMA Writes
	RemoteAtomic                    // the peer may issue atomic operations, which read and write

	// Scratch is no right of the peer's. It says that what the region holds
	// counts for nothing but where the peer has written, once a message
	// behind its RDMA Writes has come: the provider may use the rest.
	Scratch
)

// A Remote is a place in the peer's memory.
type Remote struct {
	STag STag
	TO   uint64 // tagged offset of the first octet
}

// A Region is memory that the peer may reach by its STag.
type Region interface {
	// STag returns the tag to advertise.
	STag() STag
	// TO returns the tagged offset of the region's first octet.
	TO() uint64
	// Deregister ends the peer's access. When it returns, nothing changes
	// the memory any more. It may be called twice, and after the peer or
	// the end of the connection has invalidated the region.
	Deregister()
}

// Op is the operation of a work request.
type Op uint8

// The operations of a send queue (RFC 5040, Section 3.2; RFC 7306, Sections 5
// and 6).
const (
	OpSend        Op = iota // Send, with Invalidate and Solicited Event as the WR says
	OpWrite                 // RDMA Write
	OpRead                  // RDMA Read
	OpFetchAdd              // atomic addition, in fields
	OpCompareSwap           // atomic exchange of bits, if other bits are as expected
	OpImmediate             // Immediate Data, with Solicited Event as the WR says
)

var opNames = [...]string{"Send", "RDMA Write", "RDMA Read", "FetchAdd", "CmpSwap", "Immediate Data"}

// String returns the name that RFC 5040 or RFC 7306 uses.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Atomic tells whether the operation changes one word of the peer's memory.
func (o Op) Atomic() bool { return o == OpFetchAdd || o == OpCompareSwap }

// A WR is one work request for a connection's send queue.
type WR struct {
	Op Op

	// Data is what a Send or RDMA Write carries, gathered in order, or
	// where an RDMA Read's octets go (exactly one slice, whose length is
	// the number of octets to read). It belongs to the connection until
	// the work request completes. The elements may be empty. Other
	// operations take none.
	Data [][]byte

	// LazyBuffer, if not nil, lends an RDMA Read its memory in place of Data.
	Sink LazyBuffer

	// Remote is the sink of an RDMA Write, the source of an RDMA Read, or
	// the word of an atomic operation, whose address at the peer must be
	// 64-bit aligned.
	Remote Remote

	// Atomic is what an atomic operation does to the word.
	Atomic Atomic

	// Immediate is what Immediate Data brings to the peer.
	Immediate [8]byte

	// Invalidate is the peer's STag that a Send invalidates, where
	// WithInvalidate is set.
	Invalidate     STag
	WithInvalidate bool

	// Solicited makes a Send or Immediate Data raise an event at the peer.
	Solicited bool

	// Fence delays this work request until all RDMA Reads and atomic
	// operations posted before it have completed (RFC 5040, Section 5.5,
	// rule 12).
	Fence bool

	// Reread, if not nil, says that the Data of a Send or RDMA Write may lie
	// in a mapping of a file, which cannot be read where the file was cut
	// short or its medium fails. Reread is then asked to read the octets from
	// at on, counted over all of Data, into p by another way, and returns how
	// many it has read. If that is less than p takes, zeros go in the place
	// of these and all later octets of this WR, for which it is not called
	// again. Before it returns less, it may change what the Data of later WRs
	// say, and by shorter the end of the next Send behind is left away: a
	// multiple of 4. It may wait for a disk, but must not use the connection.
	Reread func(p []byte, at int) (n, shorter int)

	// Done, if not nil, is told once of the completion, with ID.
	Done Completer
	ID   uint64
}

// A Completion tells the fate of one work request. The completions of a
// connection come in the order of posting.
type Completion struct {
	ID  uint64
	Op  Op
	Err error // nil, or why the request and all behind it failed

	// Original is what the word of an atomic operation held before.
	Original uint64
}

// A Completer takes completions. Complete is called by whichever goroutine
// moves the connection on, so it must be short and must not wait; it may
// post further work.
type Completer interface {
	Complete(Completion)
}

// A Recv is a message that the peer sent.
type Recv struct {
	// Buf holds the message: Buf.B has its length. It is the receiver's
	// to release. It is nil where WithImmediate is set.
	Buf *buf.Buf

	// Immediate is what came as Immediate Data, where WithImmediate is set.
	Immediate     [8]byte
	WithImmediate bool

	// Invalidated is the local STag that the Send invalidated, where
	// WithInvalidate is set.
	Invalidated    STag
	WithInvalidate bool

	// Solicited is set where the message asked for an event.
	Solicited bool
}

// A Handler takes what comes in on a connection. Its methods are called one
// at a time.
type Handler interface {
	// Receive takes one message. It runs on the goroutine that reads the
	// connection: nothing more is read until it returns, so it must not
	// wait for anything that the peer has yet to send.
	Receive(Recv)

	// Closed is called once, after the last Receive and after every
	// posted work request has completed. The error is the first cause:
	// nil or io.EOF after an orderly close.
	Closed(error)
}

// ConnConfig is what an upper layer decides about a connection before it
// starts.
type ConnConfig struct {
	// Handler takes the connection's messages. It must not be nil.
	Handler Handler

	// PrivateData goes to the peer with the connection's set-up.
	PrivateData []byte

	// Prepare, if not nil, makes the private data of ConnRequest.Accept in
	// place of PrivateData. It can register memory with the connection that
	// is being made, so that the data advertise it. Where Accept fails
	// nevertheless, that memory is no more reached, and the Handler is not
	// told. Dial does not look at it.
	Prepare func(Registrar) (privateData []byte)

	// RecvSize is the length in octets of the longest message that the
	// connection accepts; 0 means 4096.
	RecvSize int

	// Recvs is the number of messages that the connection accepts at
	// first; PostRecv adds to it. 0 means that the peer may send none yet.
	// Immediate Data counts as a message.
	Recvs int

	// Immediate says that the Handler takes Immediate Data. Without it the
	// peer's is answered as by one that has never heard of it, for upper
	// layers agree on it first (RFC 7306, Section 1.1).
	Immediate bool
}

// A Registrar makes memory of this end part of what the peer can reach. It may
// be a ReadDepth.
type Registrar interface {
	// Register lets the peer reach b. The region is valid on this
	// connection only. A region longer than 2^32-1 octets is an error.
	Register(b []byte, access Access) (Region, error)
}

// A Conn is a connected queue pair of a reliable service. Its methods may be
// called by several goroutines.
type Conn interface {
	Registrar

	// Post queues work requests that leave together, in order, with
	// nothing of other callers in between. It takes the Data slices over,
	// but not wrs itself. It does not wait for the peer. An error means
	// that none was queued and no completion follows.
	Post(wrs ...WR) error

	// PostRecv lets the peer send n more messages.
	PostRecv(n int) error

	// PrivateData returns what the peer sent with the connection's
	// set-up.
	PrivateData() []byte

	// LocalAddr and RemoteAddr return the ends' network addresses.
	LocalAddr() net.Addr
	RemoteAddr() net.Addr

	// Close ends the connection in good order: work already posted is
	// sent, if the peer takes it in time. It waits until nothing of the
	// connection runs, Handler.Closed included, and so must not be called
	// by Handler or Completer methods; Abort may. It may be called twice.
	Close() error

	// Abort ends the connection at once with a cause, and does not wait.
	Abort(cause error)
}

// A ConnRequest is a peer that waits to be connected. Exactly one of its
// methods Accept and Reject must be called.
type ConnRequest interface {
	// PrivateData returns what the peer sent with its request.
	PrivateData() []byte
	// RemoteAddr returns the peer's network address.
	RemoteAddr() net.Addr
	// Accept makes the connection.
	Accept(ConnConfig) (Conn, error)
	// Reject refuses it, with private data that say why.
	Reject(privateData []byte) error
}

// A Listener takes connection requests.
type Listener interface {
	// Accept waits for the next request.
	Accept(context.Context) (ConnRequest, error)
	// Addr returns the address listened on.
	Addr() net.Addr
	// Close stops listening, frees Accept, and refuses requests that
	// were not accepted yet.
	Close() error
}

// Errors of every provider.
var (
	// ErrClosed is wrapped by the errors of a connection or listener that
	// has ended, beside the cause.
	ErrClosed = errors.New("rdma: connection closed")
	// ErrFlushed is wrapped by the completion of a work request that the
	// end of its connection overtook.
	ErrFlushed = errors.New("rdma: work request flushed")
	// ErrUnsupportedOp is wrapped by the errors of a connection that the
	// peer has ended because it does not know an operation of RFC 7306.
	ErrUnsupportedOp = errors.New("rdma: the peer lacks the operation")
)

// An AccessError is among the errors of a connection that the peer ended, and of
// the work that this left undone, where an RDMA Write or Read went to memory
// that the peer did not let it reach. A Write may have completed before: that
// it left says nothing of its fate.
type AccessError struct {
	STag STag // the peer's memory
}

// Error returns the tag.
func (e AccessError) Error() string { return fmt.Sprintf("no access to STag %v of the peer", e.STag) }

// A Dialer makes connections to peers that listen.
type Dialer interface {
	// Dial connects to the network address addr, host and port, and
	// returns when the peer has accepted.
	Dial(ctx context.Context, addr string, c ConnConfig) (Conn, error)
}
