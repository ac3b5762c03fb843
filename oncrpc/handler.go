package oncrpc

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Peer is the other end of the connection that a call came on.
type Peer struct {
	Addr    netip.AddrPort
	Network string // "tcp", "udp" or "rdma"

	// Local is where the call arrived: this end's address. It is zero where
	// the transport does not tell; the one over TCP does.
	Local netip.AddrPort

	// Reverse makes calls to the peer over the same connection; nil where the
	// transport cannot. A program does so only where the peer has told it, by
	// a protocol of theirs, that it takes them (RFC 8167, Section 6).
	Reverse Caller

	// Cut ends the connection at once. It may be nil.
	Cut func(cause error)

	// Memo is for who serves the calls of the connection to remember what it
	// found out about the peer: a pointer to a type of its own.
	Memo atomic.Value
}

// String returns the network and the address.
func (p *Peer) String() string { return p.Network + " " + p.Addr.String() }

// LogValue is String (slog.LogValuer).
func (p *Peer) LogValue() slog.Value { return slog.StringValue(p.String()) }

// A Request is one call message as a transport received it: the RPC message
// from its XID on, and at most one data item that the transport carried
// apart from it. Its slices are valid until Serve returns.
type Request struct {
	Msg     []byte // without the octets and padding of Item
	Item    []byte // nil: everything is in Msg
	ItemPos int    // the XDR position of Item: the offset in Msg behind its length word

	// Places are those of the items in Msg, where several came apart from
	// it and were put back. Item is nil then.
	Places []xdr.Place

	Peer *Peer

	// MaxReply is the length in octets of the longest RPC reply message,
	// data item included, that the transport can carry back for this call.
	MaxReply int
}

// A Call is what a program sees of a Request.
type Call struct {
	XID, Prog, Vers, Proc uint32

	Cred rpcmsg.Cred
	Peer *Peer

	// Args stands at the first octet of the arguments. What it returns is
	// valid until the handler returns.
	Args xdr.Reader

	// MaxReply is the length in octets of the longest results, data item
	// included, that can be sent back.
	MaxReply int
}

// A Reply is one reply message under construction. The transport owns it, and
// sends Head, Item with its padding, and Tail in this order, or carries Item
// apart from them.
type Reply struct {
	// Head is the reply from its XID on. The transport hands it over with
	// length 0 and whatever capacity it has; room for a header of its own
	// it keeps in front of the slice. The Service appends the reply's
	// header, and a handler its results, so that Head may end up in other
	// memory than it started in.
	Head []byte

	// Item is the one data item of the results, or nil; its length word
	// is the last of Head. See NewItem.
	Item *buf.Buf

	// Tail is what follows the item and its padding, most often nothing.
	Tail []byte

	// NoReplay says that a ReplayCache must not keep the reply: the call was
	// put off, and may be executed when it comes again.
	NoReplay bool

	// Mappable says that Item may be memory that becomes unreadable while it
	// is sent: a mapping of a file that somebody cuts short, or whose medium
	// fails. Such memory is for the kernel to read; the processor would
	// fault. A transport that sends items from where they lie sets it.
	Mappable bool

	// Cut, if not nil, says that Item is such memory, of a buf.Rereader, and
	// that there is no Tail. Where the owner gets no more than n octets of it
	// in any way, the transport calls Cut before it sends Head, which is
	// changed in place to tell of n octets, or of err if that kept the owner
	// from getting more. Cut returns Head, perhaps without some words of its
	// end.
	Cut func(head []byte, n int, err error) []byte

	// Posted, if not nil, is called once when the reply, or the error that has
	// taken its place, stands in the connection's queue, so that whatever else
	// is posted there goes behind it; or when there will be none. A transport
	// does so that carries more than replies: rpcrdma. It must not wait.
	Posted func()

	// Lend, if not nil, is where NewItem gets its buffer, which has n
	// octets. A transport that bounds the memory of replies sets it; it
	// may wait until other replies have left.
	Lend func(n int) *buf.Buf

	// Hold, if not nil, is what Reserve calls. A transport that bounds the
	// memory of replies sets it where Head may get longer than what it has
	// counted; it may wait until other replies have left, and may move Head.
	Hold func(n int)

	// Aside, if not nil, is what StepAside calls. A transport sets it that has so
	// many places for the calls of a connection, or keeps its turn to read.
	Aside func()
}

// StepAside says that the call is about to wait for what another may have to end, of
// the same connection perhaps. Until its reply is made it is none of those that keep
// more from being read.
func (r *Reply) StepAside() {
	if r.Aside != nil {
		r.Aside()
	}
}

// Reserve makes sure that the memory of results of up to n bytes in Head is
// counted. It may wait, so a handler calls it once, before it takes anything that
// another call could wait for, and then makes no data item. A handler whose results
// stay below some KiB need not call it.
func (r *Reply) Reserve(n int) {
	if r.Hold != nil {
		r.Hold(n)
	}
}

// NewItem lends a buffer of n octets for the data item, from the default pool
// or what the transport has instead, and returns its content. It may wait, so
// the caller holds no lock that another call could need. The transport
// releases the buffer. A handler that fills less shortens Item.B; one that
// wants to send no item calls DropItem.
func (r *Reply) NewItem(n int) []byte {
	r.DropItem()
	if r.Lend != nil {
		r.Item = r.Lend(n)
	} else {
		r.Item = buf.Default.Get(n)
	}
	return r.Item.B
}

// DropItem releases the data item, if there is one.
func (r *Reply) DropItem() {
	if r.Item != nil {
		r.Item.Release()
		r.Item, r.Cut = nil, nil
	}
}

// Len returns the length in octets of the reply as RFC 5531 has it: with the
// item and its padding in their place.
func (r *Reply) Len() int {
	n := len(r.Head) + len(r.Tail)
	if r.Item != nil {
		n += len(r.Item.B) + xdr.Pad(len(r.Item.B))
	}
	return n
}

// reset makes r as empty as the transport handed it over.
func (r *Reply) reset() {
	r.Head, r.Tail, r.NoReplay = r.Head[:0], nil, false
	r.DropItem()
}

// A Service answers the calls that a transport receives. Serve appends the
// reply to rep, whose Head has length 0, and returns true; it returns false,
// with rep as it was, for a message that gets no answer: one that is no call,
// or too short to be answered, or that its program does not answer. A call that
// fails is answered too.
//
// It is called by many goroutines at once. Mux is the Service for programs.
type Service interface {
	Serve(ctx context.Context, req *Request, rep *Reply) (answer bool)
}

// Resumes tells whether the caller of a call to s whose connection ends may make it
// again on another, whatever has become of it: s says so by a method of that name,
// because each of its calls either changes nothing or is one whose reply is kept.
func Resumes(s Service) bool {
	r, ok := s.(interface{ Resumes() bool })
	return ok && r.Resumes()
}

// A Handler is one version of one program. ServeRPC decodes the arguments of
// c, does the procedure, and appends its results to r. A nil error makes the
// reply SUCCESS; ErrProcUnavail, ErrGarbageArgs and the errors of package xdr
// become the answer of that name; an AuthError a denial; ErrNoAnswer none; any
// other error SYSTEM_ERR. After an error what was appended to r is thrown away.
//
// It is called by many goroutines at once, and does not know which transport
// carried the call.
type Handler interface {
	ServeRPC(ctx context.Context, c *Call, r *Reply) error
}

// Errors that a Handler returns (RFC 5531, Section 9, accept_stat).
var (
	ErrProcUnavail = errors.New("oncrpc: procedure unavailable")
	ErrGarbageArgs = errors.New("oncrpc: arguments cannot be decoded")
)

// ErrNoAnswer is the fate of a message that cannot be answered, because it is no
// call or ends before that and the RPC version, which decides how an answer
// looks, are known. A Handler returns it where its protocol wants no answer.
var ErrNoAnswer = rpcmsg.ErrNotCall
