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

// A Peer is the other end of the connection of a call.
type Peer struct {
	Addr    netip.AddrPort
	Network string // "tcp", "udp" or "rdma"

	// Local is the address of this end, at which the call arrived. It is zero
	// if the transport does not provide it.
	Local netip.AddrPort

	// Reverse makes calls to the peer over the same connection. It is nil if
	// the transport cannot do that. A program must not use Reverse before the
	// peer has announced, by the program's protocol, that it accepts such calls
	// (RFC 8167, Section 6). A call that waits for the end of a reverse call
	// must step aside before (Reply.StepAside). Otherwise the transport might
	// not read the reply.
	Reverse Caller

	// Cut ends the connection at once. It may be nil.
	Cut func(cause error)

	// Security is the protection of the connection; nil means that the calls come in
	// clear. A client that makes its connection secure becomes another Peer.
	Security *Security

	memos atomic.Value // *memo: what the programs remember (see Memo)
}

// String returns the network and the address.
func (p *Peer) String() string { return p.Network + " " + p.Addr.String() }

// LogValue is String (slog.LogValuer).
func (p *Peer) LogValue() slog.Value { return slog.StringValue(p.String()) }

// A Request is one call message as a transport received it. Msg is the RPC
// message from its XID on. At most one data item may have come apart from Msg.
// The slices are valid until Serve returns.
type Request struct {
	Msg     []byte // without the bytes and padding of Item
	Item    []byte // nil: everything is in Msg
	ItemPos int    // the XDR position of Item: the offset in Msg just after its length word

	// Places are the positions of several items that came apart from the
	// message and were inserted into Msg. Item is nil then.
	Places []xdr.Place

	Peer *Peer

	// Verified is the caller, if a Service has verified it and has taken its
	// credential and verifier out of Msg. Nil means that Msg has the credential.
	Verified *rpcmsg.Cred

	// MaxReply is the length in bytes of the longest RPC reply message, its
	// data item included, that the transport can carry back for this call.
	MaxReply int

	// MaxWhole is the same for a reply with Reply.Whole set.
	MaxWhole int

	// Growth is by how many bytes the reply gets longer, at most, when a Service below
	// signs or encrypts the reply. MaxReply and MaxWhole do not contain them.
	Growth int

	// ItemRooms are the bytes that only data items can use: the longest first
	// item, the longest second, and so on. The items without a room, or with
	// one of 0 bytes, share the other bytes of the reply with everything else.
	// MaxReply contains the room of the first item, but those of further items
	// come on top.
	ItemRooms []int
}

// MaxReplies returns the length in bytes of the longest reply with several data
// items.
func MaxReplies(maxReply int, itemRooms []int) int {
	for i := 1; i < len(itemRooms); i++ {
		maxReply += itemRooms[i]
	}
	return maxReply
}

// A Call is a Request as a program sees it.
type Call struct {
	XID, Prog, Vers, Proc uint32

	Cred rpcmsg.Cred
	Peer *Peer

	// Args is positioned at the first byte of the arguments. Slices from Args
	// are valid until the handler returns.
	Args xdr.Reader

	// MaxReply is the length in bytes of the longest results, their data item
	// included, that can be sent back.
	MaxReply int

	// Growth and ItemRooms are those of the Request.
	Growth    int
	ItemRooms []int
}

// A Reply is one reply message under construction. The transport owns it. The
// transport sends Head, Item with its padding, Tail, and More in this order, or
// carries items apart from them.
type Reply struct {
	// Head is the reply from its XID on. The transport passes it with length 0
	// and any capacity, and keeps room for a header of its own in front of the
	// slice. The Service appends the reply's header, and a handler its results.
	// Appending may move Head to other memory.
	Head []byte

	// Item is the first data item of the results, or nil. Its length word is the
	// last word of Head. See NewItem.
	Item *buf.Buf

	// Tail follows the item and its padding. It is usually empty.
	Tail []byte

	// More are further data items of the results, in order. See AddItem.
	More []Part

	// Whole forbids the transport to carry data items apart from the rest: the
	// results are signed or encrypted as a whole (RFC 8166, Section 8.2.2.3).
	Whole bool

	// NoReplay forbids a replay.Cache to keep the reply: the call was put off,
	// and may be executed if the client sends it again.
	NoReplay bool

	// Mappable permits an Item in memory that may become unreadable while it is
	// sent: a mapping of a file that another process truncates, or whose medium
	// fails. The kernel may read such memory, but a read by the processor would
	// fault. A transport sets Mappable if it sends items directly from their
	// memory.
	Mappable bool

	// Cut, if not nil, reports that Item is such memory, of a buf.Rereader, and
	// that there is neither Tail nor More. If the owner can get only n bytes of it by any
	// means, the transport calls Cut before it sends Head, or ends the connection
	// if a part of Head has left. Cut changes Head in place, so that Head
	// announces n bytes, or the error err that kept the owner from getting
	// more. Cut returns Head, which may have lost some words at its end.
	Cut func(head []byte, n int, err error) []byte

	// Posted, if not nil, is called once, when the connection's queue contains
	// the reply, or the error that replaces the reply, or when there will be
	// neither. Messages posted afterwards follow the reply. Only a transport
	// that carries more than replies calls Posted: rpcrdma. Posted must not
	// wait.
	Posted func()

	// Lend, if not nil, is the source of NewItem's buffer of n bytes. A
	// transport that bounds the memory of replies sets it. Lend may wait until
	// other replies have been sent.
	Lend func(n int) *buf.Buf

	// LendMore, if not nil, is the source of AddItem's buffer of n bytes. It
	// does not wait, and returns nil if no memory is free. A transport that
	// bounds the memory of replies sets it.
	LendMore func(n int) *buf.Buf

	// Hold, if not nil, is called by Reserve. A transport that bounds the
	// memory of replies sets it if Head may become longer than the transport
	// has counted. Hold may wait until other replies have been sent, and may
	// move Head.
	Hold func(n int)

	// Trace, if not nil, follows the call.
	Trace Trace

	// Aside, if not nil, is called by StepAside. A transport sets it if it
	// bounds the calls of a connection, or keeps its turn to read.
	Aside func()
}

// A Part is a data item of a Reply after the first, and what follows the item
// and its padding. The item's length word is the last word in front of it.
type Part struct {
	Item *buf.Buf
	Tail []byte
}

// StepAside announces that the call is about to wait for the end of another
// call, perhaps of the same connection. Until the reply is made, the call no
// longer keeps the transport from reading further calls.
func (r *Reply) StepAside() {
	if r.Aside != nil {
		r.Aside()
	}
}

// Reserve counts the memory of results of up to n bytes in Head. Reserve may
// wait. A handler must call it at most once, before the handler acquires
// anything that another call could wait for, and must make no data item
// afterwards. A handler whose results stay below some KiB need not call it.
func (r *Reply) Reserve(n int) {
	if r.Hold != nil {
		r.Hold(n)
	}
}

// NewItem lends a buffer of n bytes for the data item, from the transport or
// the default pool, and returns its content. NewItem may wait, so the caller
// must not hold a lock that another call could need. The transport releases the
// buffer. A handler that fills fewer bytes must shorten Item.B; a handler that
// sends no item must call DropItem.
func (r *Reply) NewItem(n int) []byte {
	r.DropItem()
	if r.Lend != nil {
		r.Item = r.Lend(n)
	} else {
		r.Item = buf.Default.Get(n)
	}
	return r.Item.B
}

// AddItem adds a data item of n bytes after those that r has, at least the first
// of NewItem, and returns its content. It returns false if no memory is free: it
// does not wait, because the call holds memory that others may wait for. The
// handler then puts the call off. A handler that fills fewer bytes must call
// Shorten.
func (r *Reply) AddItem(n int) (p []byte, ok bool) {
	lend := r.LendMore
	if lend == nil {
		lend = buf.Default.Get
	}
	b := lend(n)
	if b == nil {
		return nil, false
	}
	r.More = append(r.More, Part{Item: b})
	return b.B, true
}

// Shorten makes the last data item n bytes long. An item of AddItem that fills
// less than half of its buffer moves to a shorter one: together, such items must
// not have more memory than the longest reply.
func (r *Reply) Shorten(n int) {
	item := &r.Item
	if last := len(r.More) - 1; last >= 0 {
		item = &r.More[last].Item
	}
	b := *item
	b.B = b.B[:n]
	if item != &r.Item && 2*buf.Size(n) <= cap(b.B) {
		*item = buf.Default.Get(n)
		copy((*item).B, b.B)
		b.Release()
	}
}

// DropItem releases all data items, if there are any.
func (r *Reply) DropItem() {
	if r.Item == nil {
		return
	}
	r.Item.Release()
	r.Item, r.Cut = nil, nil
	for r.More != nil {
		r.DropLast()
	}
}

// DropLast releases the last data item of AddItem.
func (r *Reply) DropLast() {
	last := len(r.More) - 1
	r.More[last].Item.Release()
	if r.More = r.More[:last]; last == 0 {
		r.More = nil
	}
}

// AppendBody appends the parts of the reply behind Head to v, with the padding
// of the items.
func (r *Reply) AppendBody(v [][]byte) [][]byte {
	if r.Item != nil {
		v = appendItem(v, r.Item.B)
	}
	if len(r.Tail) > 0 {
		v = append(v, r.Tail)
	}
	for i := range r.More {
		v = appendItem(v, r.More[i].Item.B)
		if len(r.More[i].Tail) > 0 {
			v = append(v, r.More[i].Tail)
		}
	}
	return v
}

func appendItem(v [][]byte, item []byte) [][]byte {
	if len(item) == 0 {
		return v
	}
	v = append(v, item)
	if pad := xdr.Pad(len(item)); pad > 0 {
		v = append(v, padding[:pad])
	}
	return v
}

// Len returns the length in bytes of the reply as RFC 5531 defines it, with the
// items and their padding in their place.
func (r *Reply) Len() int {
	n := len(r.Head) + len(r.Tail)
	if r.Item != nil {
		n += len(r.Item.B) + xdr.Pad(len(r.Item.B))
	}
	for i := range r.More {
		p := &r.More[i]
		n += len(p.Item.B) + xdr.Pad(len(p.Item.B)) + len(p.Tail)
	}
	return n
}

// reset makes r empty again.
func (r *Reply) reset() {
	r.Head, r.Tail, r.NoReplay = r.Head[:0], nil, false
	r.DropItem()
}

// A Service answers the calls that a transport receives. Serve appends the
// reply to rep, whose Head has length 0, and returns true. It returns false and
// leaves rep unchanged if the message gets no answer: because it is not a call,
// is too short to be answered, or its program does not answer it. A failing
// call is answered too.
//
// Serve must be safe for concurrent use. Mux is the Service for programs.
type Service interface {
	Serve(ctx context.Context, req *Request, rep *Reply) (answer bool)
}

// Resumes reports whether a client whose connection ends may repeat any of its
// calls to s on another connection, whether or not the first call was executed.
// A Service declares that by a method of the same name: each of its calls
// either changes nothing, or has its reply kept.
func Resumes(s Service) bool {
	r, ok := s.(interface{ Resumes() bool })
	return ok && r.Resumes()
}

// A Handler is one version of one program. ServeRPC decodes the arguments of c,
// performs the procedure, and appends its results to r. A nil error makes the
// reply SUCCESS. ErrProcUnavail, ErrGarbageArgs and the errors of package xdr
// become the answer of that name, an AuthError a denial, ErrNoAnswer no answer,
// and any other error SYSTEM_ERR. After an error, the data appended to r are
// discarded.
//
// ServeRPC must be safe for concurrent use. It does not know which transport
// carried the call.
type Handler interface {
	ServeRPC(ctx context.Context, c *Call, r *Reply) error
}

// Errors that a Handler returns (RFC 5531, Section 9, accept_stat).
var (
	ErrProcUnavail = errors.New("oncrpc: procedure unavailable")
	ErrGarbageArgs = errors.New("oncrpc: arguments cannot be decoded")
)

// ErrNoAnswer reports a message that cannot be answered. Either it is not a
// call, or it ends before the RPC version, which determines the format of an
// answer. A Handler returns ErrNoAnswer if its protocol wants no answer.
var ErrNoAnswer = rpcmsg.ErrNotCall
