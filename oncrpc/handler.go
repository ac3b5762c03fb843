package oncrpc

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A Peer is the remote end of a call's connection.
type Peer struct {
	Addr    netip.AddrPort
	Network string // "tcp", "udp" or "rdma"

	// Local is the local address at which the call arrived. It is zero
	// if the transport does not provide it.
	Local netip.AddrPort

	// Reverse makes calls to the peer over the same connection. It is nil if the
	// transport cannot do that. A program must not use Reverse before the peer has
	// announced, by the program's protocol, that it accepts such calls (RFC 8167, Section
	// 6). A call that waits for a reverse call must step aside first (Reply.StepAside).
	// Otherwise the transport might not read the reply.
	Reverse Caller

	// Conn is the connection. It is nil if the transport has no connections, such as
	// UDP; the address and the port then are the client. A connection that becomes
	// secure remains the same Connection.
	Conn *Connection

	// Cut closes the connection at once. It may be nil.
	Cut func(cause error)

	// Security describes the connection's protection; nil means that the calls arrive
	// unencrypted. A client that makes its connection secure becomes another Peer.
	Security *Security

	memos atomic.Value // *memoEntry: what the programs store (see Memo)
}

// String returns the network and the address.
func (p *Peer) String() string { return p.Network + " " + p.Addr.String() }

// LogValue is String (slog.LogValuer).
func (p *Peer) LogValue() slog.Value { return slog.StringValue(p.String()) }

// Work is what a call did, for statistics. The call's program sets it.
type Work struct {
	// Subject is the counters of what the call worked on, such as an export, in a type that
	// the counting Service knows (rpcstats.Usage), or nil.
	Subject any

	Read, Written uint64 // bytes of file data
}

// A Request is one call message as a transport received it. Msg is the RPC message from
// its XID on. At most one data item may be separate from Msg. The slices are valid until
// Serve returns.
type Request struct {
	Msg     []byte // without the bytes and padding of Item
	Item    []byte // nil: everything is in Msg
	ItemPos int    // the XDR position of Item: the offset in Msg just after its length word

	// Places are the positions at which several items, received separately, were inserted
	// into Msg. Item is nil then.
	Places []xdr.Place

	Peer *Peer

	// Verified is the caller, if a Service has verified it and has taken its
	// credential and verifier out of Msg. Nil means that Msg has the credential.
	Verified *rpcmsg.Cred

	// MaxReply is the maximum length in bytes of the RPC reply message, its data item
	// included, that the transport can send back for this call.
	MaxReply int

	// MaxWhole is the maximum for a reply with Reply.Whole set.
	MaxWhole int

	// Growth is the maximum number of bytes by which the reply grows when a Service below
	// signs or encrypts it. MaxReply and MaxWhole do not contain them.
	Growth int

	// ItemLimits are the maximum lengths in bytes of the data items that have space of their
	// own, in order. Items without an entry, or with an entry of 0, share
	// the reply's other bytes with everything else. MaxReply includes the first entry,
	// but not the further ones.
	ItemLimits []int
}

// MaxReplies returns the maximum length in bytes of a reply with several data items.
func MaxReplies(maxReply int, itemLimits []int) int {
	for i := 1; i < len(itemLimits); i++ {
		maxReply += itemLimits[i]
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

	// MaxReply is the maximum results length in bytes, their data item included, that can
	// be sent back.
	MaxReply int

	// Growth and ItemLimits are copied from the Request.
	Growth     int
	ItemLimits []int
}

// A Reply is one reply message under construction. The transport owns it. The transport
// sends Head, Item with its padding, Tail, and More in this order, or sends items
// separately.
type Reply struct {
	// Head is the reply from its XID on. The transport passes it with length 0 and any
	// capacity, and keeps space for its own header in front of the slice. The Service
	// appends the reply's header, and a handler its results. Appending may move Head to
	// other memory.
	Head []byte

	// Item is the results' first data item, or nil. Its length word is the
	// last word of Head. See NewItem.
	Item *buf.Buf

	// Tail follows the item and its padding. It is usually empty.
	Tail []byte

	// More are the results' further data items, in order. See AddItem.
	More []furtherItem

	// Whole forbids the transport to send data items separately: the results are signed
	// or encrypted as a whole (RFC 8166, Section 8.2.2.3).
	Whole bool

	// NoReplay forbids a replay.Cache to keep the reply: the call was deferred, and may
	// be executed if the client sends it again.
	NoReplay bool

	// Mappable permits an Item in memory that may become unreadable while it is sent: a
	// file mapping, if another process truncates the file or its medium fails. The kernel
	// may read such memory, but a read by the processor would fault. A transport sets
	// Mappable if it sends items directly from their memory.
	Mappable bool

	// Cut, if not nil, reports that Item is such memory, owned by a buf.Rereader, and
	// that there is neither Tail nor More. If the owner can provide only n bytes, the
	// transport calls Cut before it sends Head, or closes the connection if it has
	// already sent a part of Head. Cut changes Head in place, so that Head announces n
	// bytes, or the error err that kept the owner from providing more. Cut returns Head,
	// which may be some words shorter.
	Cut func(head []byte, n int, err error) []byte

	// Posted, if not nil, is called once, when the connection's queue contains
	// the reply, or the error that replaces the reply, or when there will be
	// neither. Messages posted afterwards follow the reply. Only a transport
	// that carries more than replies calls Posted: rpcrdma. Posted must not
	// wait.
	Posted func()

	// Lend, if not nil, provides NewItem's buffer, which has n bytes. A transport that
	// bounds reply memory sets it. Lend may wait until other replies have been sent.
	Lend func(n int) *buf.Buf

	// LendMore, if not nil, provides AddItem's buffer, which has n bytes. It does not
	// wait, and returns nil if no memory is free. A transport that bounds reply memory
	// sets it.
	LendMore func(n int) *buf.Buf

	// Hold, if not nil, is called by Reserve. A transport that bounds reply memory sets
	// it if Head may become longer than the transport has counted. Hold may wait until
	// other replies have been sent, and may move Head.
	Hold func(n int)

	// Trace, if not nil, traces the call.
	Trace Trace

	// Work describes what the call did, for a Service that counts it.
	Work Work

	// Aside, if not nil, is called by StepAside. A transport sets it if it bounds a
	// connection's calls, or keeps its turn to read.
	Aside func()
}

// A furtherItem is a further data item in a Reply, and the bytes that follow the item and its
// padding. The item's length word is the last word in front of it.
type furtherItem struct {
	Item *buf.Buf
	Tail []byte
}

// StepAside announces that the call is about to wait for another call, perhaps on the
// same connection. Until the reply is complete, the call no longer keeps the transport
// from reading further calls.
func (r *Reply) StepAside() {
	if r.Aside != nil {
		r.Aside()
	}
}

// Reserve counts memory for results up to n bytes long in Head. Reserve may
// wait. A handler must call it at most once, before the handler acquires
// anything that another call could wait for, and must make no data item
// afterwards. A handler whose results stay below some KiB need not call it.
func (r *Reply) Reserve(n int) {
	if r.Hold != nil {
		r.Hold(n)
	}
}

// NewItem lends a buffer with n bytes for the data item, from the transport or
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

// AddItem adds a data item with n bytes after those that r has, at least NewItem's, and
// returns its content. It returns false if no memory is free: it does not wait, because
// the call holds memory that others may wait for. The handler must then defer the call. A
// handler that fills fewer bytes must call Shorten.
func (r *Reply) AddItem(n int) (p []byte, ok bool) {
	lend := r.LendMore
	if lend == nil {
		lend = buf.Default.Get
	}
	b := lend(n)
	if b == nil {
		return nil, false
	}
	r.More = append(r.More, furtherItem{Item: b})
	return b.B, true
}

// Shorten makes the last data item n bytes long. If an AddItem item fills less than half
// its buffer, Shorten moves it to a shorter one: together, such items must not use more
// memory than the longest reply.
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

// DropLast releases the last data item that AddItem added.
func (r *Reply) DropLast() {
	last := len(r.More) - 1
	r.More[last].Item.Release()
	if r.More = r.More[:last]; last == 0 {
		r.More = nil
	}
}

// AppendBody appends the reply's parts after Head to v, with each item's padding.
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

// Len returns the reply's length in bytes as RFC 5531 defines it, with the
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

// Discard makes r empty again.
func (r *Reply) Discard() {
	r.Head, r.Tail, r.NoReplay = r.Head[:0], nil, false
	r.DropItem()
}

// A Service serves the calls that a transport receives. Serve appends the reply to rep,
// whose Head has length 0, and returns true. It returns false and leaves rep unchanged if
// there is no reply: the message is not a call, is too short to be replied to, or its
// program does not reply to it. A failing call has a reply too.
//
// Serve must be safe for concurrent use. Mux is the Service for programs.
type Service interface {
	Serve(ctx context.Context, req *Request, rep *Reply) (answer bool)
}

// Resumes reports whether a client whose connection closes may repeat any of its calls to
// s on another connection, whether or not the first call was executed. A Service declares
// that by a method with the same name: each of its calls either changes nothing, or has
// its reply cached.
func Resumes(s Service) bool {
	r, ok := s.(interface{ Resumes() bool })
	return ok && r.Resumes()
}

// A Handler implements one version of one program. ServeRPC decodes the arguments of c,
// performs the procedure, and appends its results to r. A nil error makes the reply
// SUCCESS. ErrProcUnavail, ErrGarbageArgs and package xdr's errors become the accept_stat
// with that name, an AuthError denies the call, ErrNoAnswer suppresses the reply, and any
// other error becomes SYSTEM_ERR. After an error, the data appended to r are discarded.
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

// ErrNoAnswer reports a message to which there is no reply. Either it is not a call, or
// it ends before the RPC version, which determines the reply's format. A Handler returns
// ErrNoAnswer if its protocol wants no reply.
var ErrNoAnswer = rpcmsg.ErrNotCall
