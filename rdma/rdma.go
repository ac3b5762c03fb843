package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// An STag names registered memory to the peer (RFC 5040, Section 1.3). The
// InfiniBand verbs call it an R_key, RFC 8166 a handle.
type STag uint32

// String returns the tag as eight hexadecimal digits.
func (s STag) String() string { return fmt.Sprintf("%#08x", uint32(s)) }

// Access is the peer's set of rights on a memory region.
type Access uint8

// The rights on a region; they may be combined.
const (
	// RemoteRead permits RDMA Reads by the peer. Without RemoteWrite or RemoteAtomic, the region
	// must not change while the peer may read it: the provider may read it twice, for a checksum
	// and to send it, and on a mismatch the peer terminates the connection.
	RemoteRead   Access = 1 << iota
	RemoteWrite         // the peer may issue RDMA Writes
	RemoteAtomic        // the peer may issue atomic operations, which read and write

	// Scratch is not a right. It declares that the region's content is
	// undefined except for the bytes that the peer has written, and that those
	// are defined only once a message sent after the peer's RDMA Writes has
	// arrived: the provider may use the rest.
	Scratch
)

// A Remote is an address in the peer's memory.
type Remote struct {
	STag STag
	TO   uint64 // first byte's tagged offset
}

// A Region is memory that the peer may access by its STag.
type Region interface {
	// STag returns the tag to advertise.
	STag() STag
	// TO returns the region's first tagged offset.
	TO() uint64
	// Deregister revokes the peer's access. When it returns, nothing changes
	// the memory any more. It may be called twice, and after the region was
	// invalidated by the peer or because the connection ended.
	Deregister()
}

// Op is a work request's operation.
type Op uint8

// The send queue operations (RFC 5040, Section 3.2; RFC 7306, Sections 5 and
// 6).
const (
	OpSend        Op = iota // Send, with Invalidate and Solicited Event according to the WR
	OpWrite                 // RDMA Write
	OpRead                  // RDMA Read
	OpFetchAdd              // atomic addition, in fields
	OpCompareSwap           // atomic exchange of bits, if other bits are as expected
	OpImmediate             // Immediate Data, with Solicited Event according to the WR
)

var opNames = [...]string{"Send", "RDMA Write", "RDMA Read", "FetchAdd", "CmpSwap", "Immediate Data"}

// String returns the name that RFC 5040 or RFC 7306 uses.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Atomic reports whether the operation is an atomic operation on a word in the
// peer's memory.
func (o Op) Atomic() bool { return o == OpFetchAdd || o == OpCompareSwap }

// A WR is one work request for a connection's send queue.
type WR struct {
	Op Op

	// Data is the payload for a Send or RDMA Write, gathered in order, or the
	// destination for an RDMA Read (exactly one slice, whose length is the
	// number of bytes to read). It belongs to the connection until the work
	// request completes. The elements may be empty. Other operations accept no
	// Data.
	Data [][]byte

	// Sink, if not nil, lends an RDMA Read its memory in place of Data.
	Sink LazyBuffer

	// Remote is an RDMA Write's sink, an RDMA Read's source, or an atomic
	// operation's word, whose address at the peer must be 64-bit aligned.
	Remote Remote

	// Atomic holds an atomic operation's operands.
	Atomic Atomic

	// Immediate is the Immediate Data.
	Immediate [8]byte

	// Invalidate is the peer's STag that a Send invalidates, if WithInvalidate
	// is set.
	Invalidate     STag
	WithInvalidate bool

	// Solicited makes a Send or Immediate Data raise an event at the peer.
	Solicited bool

	// Fence delays this work request until all RDMA Reads and atomic
	// operations posted before it have completed (RFC 5040, Section 5.5,
	// rule 12).
	Fence bool

	// Reread, if not nil, declares that the Data in a Send or RDMA Write may be
	// in a file mapping, which cannot be read if the file was truncated or its
	// medium fails. Reread must then read the bytes from at on, counted over
	// all of Data, into p by other means, and return the number n of bytes
	// read. If n is less than len(p), zeros replace the rest and all later
	// bytes in this WR, and Reread is not called again for the WR. Before it
	// returns less, Reread may change the Data in later WRs; the next Send
	// loses its last shorter bytes, a multiple of 4. Reread may wait for a
	// disk, but must not use the connection.
	Reread func(p []byte, at int) (n, shorter int)

	// Done, if not nil, receives the completion, exactly once, with ID.
	Done Completer
	ID   uint64
}

// A Completion is a work request's result. A connection's completions arrive in
// posting order.
type Completion struct {
	ID  uint64
	Op  Op
	Err error // nil, or why the request and all later ones failed

	// Original is the previous value of an atomic operation's word.
	Original uint64
}

// A Completer receives completions. Complete is called by the goroutine that
// drives the connection, so it must be short and must not wait; it may post
// further work.
type Completer interface {
	Complete(Completion)
}

// A Recv is a message that the peer sent.
type Recv struct {
	// Buf holds the message: Buf.B has its length. The receiver must release
	// it. Buf is nil if WithImmediate is set.
	Buf *buf.Buf

	// Immediate is the Immediate Data, if WithImmediate is set.
	Immediate     [8]byte
	WithImmediate bool

	// Invalidated is the local STag that the Send invalidated, if
	// WithInvalidate is set.
	Invalidated    STag
	WithInvalidate bool

	// Solicited is set if the message requested an event.
	Solicited bool
}

// A Handler handles a connection's events. Its methods are called one at a
// time.
type Handler interface {
	// Receive receives one message. It runs on the goroutine that reads the
	// connection: nothing more is read until Receive returns. Receive must not
	// wait for anything that the peer has yet to send.
	Receive(Recv)

	// Closed is called once, after the last Receive and after every posted work
	// request has completed. The error is the first cause: nil or io.EOF after
	// an orderly close.
	Closed(error)
}

// ConnConfig is an upper layer's configuration for a connection.
type ConnConfig struct {
	// Handler receives the connection's messages. It must not be nil.
	Handler Handler

	// PrivateData is sent to the peer during the connection's set-up.
	PrivateData []byte

	// Prepare, if not nil, returns the private data for ConnRequest.Accept in
	// place of PrivateData. It may register memory with the connection that is
	// being accepted, and advertise the memory in the data. If Accept fails
	// afterwards, the memory can no longer be accessed, and the Handler is not
	// called. Dial ignores Prepare.
	Prepare func(Registrar) (privateData []byte)

	// RecvSize is the maximum message length, in bytes, that the connection
	// accepts; 0 means 4096.
	RecvSize int

	// Recvs is the number of messages that the connection accepts at first;
	// PostRecv adds to it. 0 means that the peer may not send any message yet.
	// Immediate Data counts as a message.
	Recvs int

	// Immediate declares that the Handler accepts Immediate Data. Otherwise the
	// connection responds to Immediate Data as to an unknown operation, because
	// upper layers must agree on it first (RFC 7306, Section 1.1).
	Immediate bool
}

// A Registrar gives the peer access to local memory. It may be a ReadDepth.
type Registrar interface {
	// Register gives the peer access to b. The region is valid on this
	// connection only. A region longer than 2^32-1 bytes is an error.
	Register(b []byte, access Access) (Region, error)
}

// A Conn is a connected queue pair with a reliable service. Its methods are
// safe for concurrent use.
type Conn interface {
	Registrar

	// Post queues work requests that are sent together, in order, without other
	// callers' work in between. It takes ownership of the Data slices, but not
	// of wrs. It does not wait for the peer. An error means that no request was
	// queued and no completion follows.
	Post(wrs ...WR) error

	// PostRecv allows the peer to send n more messages.
	PostRecv(n int) error

	// PrivateData returns the peer's private data from the connection's set-up.
	PrivateData() []byte

	// LocalAddr and RemoteAddr return the ends' network addresses.
	LocalAddr() net.Addr
	RemoteAddr() net.Addr

	// Close closes the connection in an orderly way: posted work is sent, if
	// the peer receives it in time. Close waits until all the connection's
	// goroutines are done, including Handler.Closed. It must therefore not be
	// called by Handler or Completer methods; Abort may. It may be called
	// twice.
	Close() error

	// Abort closes the connection immediately with a cause. It does not wait.
	Abort(cause error)
}

// A ConnRequest is a peer's pending request to connect. Exactly one of Accept
// and Reject must be called.
type ConnRequest interface {
	// PrivateData returns the private data in the peer's request.
	PrivateData() []byte
	// RemoteAddr returns the peer's network address.
	RemoteAddr() net.Addr
	// Accept accepts the connection.
	Accept(ConnConfig) (Conn, error)
	// Reject rejects the connection, with private data that gives the reason.
	Reject(privateData []byte) error
}

// A Listener accepts connection requests.
type Listener interface {
	// Accept waits for the next request.
	Accept(context.Context) (ConnRequest, error)
	// Addr returns the listener's address.
	Addr() net.Addr
	// Close stops listening, unblocks Accept, and rejects requests that were
	// not accepted yet.
	Close() error
}

// Errors common to all providers.
var (
	// ErrClosed is wrapped, with the cause, by the errors of a connection or
	// listener that has ended.
	ErrClosed = errors.New("rdma: connection closed")
	// ErrFlushed is wrapped by the completion of a work request that was
	// unfinished when its connection ended.
	ErrFlushed = errors.New("rdma: work request flushed")
	// ErrUnsupportedOp is wrapped by the errors of a connection that the peer
	// has terminated because it does not support an RFC 7306 operation.
	ErrUnsupportedOp = errors.New("rdma: the peer lacks the operation")
)

// An AccessError is wrapped by the errors of a connection that the peer
// terminated because of an RDMA Write or Read to memory that it did not expose,
// and by the completions of unfinished work. A Write may have completed before:
// its completion means only that the Write has been sent.
type AccessError struct {
	STag STag // the peer's memory
}

// Error returns the tag.
func (e AccessError) Error() string { return fmt.Sprintf("no access to STag %v of the peer", e.STag) }

// A Dialer connects to listening peers.
type Dialer interface {
	// Dial connects to the network address addr, host and port, and returns
	// when the peer has accepted.
	Dial(ctx context.Context, addr string, c ConnConfig) (Conn, error)
}
