package oncrpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// An Exchange is one call and its reply on the client's side. The caller fills
// in the first part, and Call fills in the results. An Exchange may be used
// again after Release.
type Exchange struct {
	Prog, Vers, Proc uint32
	Cred             rpcmsg.Cred

	// XID, if not 0, is the XID with which the same call was sent before; the server may
	// have executed it. Call reuses that XID, unless a call in flight has it.
	XID uint32

	// Signer, if not nil, protects the call and its reply. Cred is ignored then.
	Signer Signer

	// Args are the encoded arguments, up to and including the length word of Item if
	// there is an Item. Tail follows the item and its padding. Args, Item and Tail are
	// read until Call returns, and must not change before: a transport may read them
	// twice, for a checksum and to send them, and the peer closes the connection if the
	// two differ.
	Args, Item, Tail []byte

	// Relay marks a forwarded call from another client. Args then begin after its XID,
	// with its original header. Call fills in Reply and Placed instead of Results. Prog
	// and Vers must match the header; Cred is ignored.
	Relay bool

	// MaxResults is the maximum length in bytes of the procedure's results, without the
	// data item that goes to Sink.
	MaxResults int

	// Sink is the memory for the results' data item, if the procedure has one. It must be
	// as long as the longest item. All of Sink, even the part after the item, may be
	// written to until Call returns, but not later.
	Sink []byte

	// Locate, if not nil, reads the start of successful results up to and including the
	// length word of the data item, and returns the length in bytes, or 0 if there is no
	// item. A transport without chunks uses it to receive the item into Sink. The reader
	// has only the first few hundred bytes of the results.
	Locate func(r *xdr.Reader) int

	// After a successful call, Results is positioned at the first byte of the results.
	// Its method Item returns the data item: either the start of Sink, or a slice valid
	// until Release.
	Results xdr.Reader

	// Reply is the reply message from its XID on, successful or not, without
	// the first Placed bytes of Sink and their padding. The caller may write to
	// Reply. It is valid until Release.
	Reply  []byte
	Placed int

	// Lent is the buffer that Results or Reply alias, or nil.
	Lent *buf.Buf
}

// Release releases the memory that Results or Reply alias.
func (x *Exchange) Release() {
	x.Results, x.Reply, x.Placed = xdr.Reader{}, nil, 0
	if x.Lent != nil {
		x.Lent.Release()
		x.Lent = nil
	}
}

// A Caller makes calls to one server. Call sends the call and waits for the reply. It
// returns nil if the server executed the procedure; x.Results is then positioned at its
// results. Otherwise the error is or wraps a ReplyError, an AuthError, ctx's cause, or
// the connection's error, and nothing needs to be released. With x.Relay, any reply makes
// the error nil. A Caller is safe for concurrent use.
type Caller interface {
	Call(ctx context.Context, x *Exchange) error
}

// A Signer protects one call and its reply, as package rpcsec does. Only the
// goroutine in Call uses it.
type Signer interface {
	// Whole reports whether the arguments and results are protected too. If so, neither
	// may have a data item that is sent separately from the message.
	Whole() bool

	// Overhead returns the maximum number of bytes by which a call is longer than its
	// arguments, and an accepted reply longer than its results after an empty verifier.
	Overhead() (call, reply int)

	// AppendCall appends the call from its XID on, for each transmission: up to
	// and including Args, or all of it if it is Whole. It may wait until
	// transmissions that were appended before are Sent.
	AppendCall(b []byte, xid uint32, x *Exchange) ([]byte, error)

	// Sent reports that the transmission appended last is in the connection's queue, so
	// that others follow it, or will not be sent.
	Sent()

	// Open checks the verifier of an accepted reply, and its results, which begin
	// at r's position if stat is SUCCESS. It positions r at the plain results.
	Open(verf rpcmsg.OpaqueAuth, stat uint32, r *xdr.Reader) error
}

// A BoundSigner is a Signer that depends on the connection: Bind is called before each
// AppendCall, with the connection's protection, or nil if it is unencrypted.
type BoundSigner interface {
	Signer
	Bind(s *Security)
}

// Bind tells a BoundSigner which connection will carry x. Transports call it.
func (x *Exchange) Bind(s *Security) {
	if b, ok := x.Signer.(BoundSigner); ok {
		b.Bind(s)
	}
}

// AppendMessage appends the call that x is, from its XID on. It returns the data
// item that follows, if there is one, and what follows that. machine is as in
// AppendCall.
func (x *Exchange) AppendMessage(b []byte, xid uint32, machine string) (msg, item, tail []byte, err error) {
	if x.Signer == nil {
		return append(AppendCall(b, xid, x, machine), x.Args...), x.Item, x.Tail, nil
	}
	msg, err = x.Signer.AppendCall(b, xid, x)
	if x.Signer.Whole() {
		return msg, nil, nil, err
	}
	return msg, x.Item, x.Tail, err
}

// CallOverhead returns the maximum number of bytes by which the call is longer than its
// arguments: usual, the maximum header length, unless x has a Signer.
func (x *Exchange) CallOverhead(usual int) int {
	if x.Signer == nil {
		return usual
	}
	overhead, _ := x.Signer.Overhead()
	return overhead
}

// ReplyOverhead returns the maximum length in bytes of an accepted reply without its results,
// and reports whether a data item may be separate from it.
func (x *Exchange) ReplyOverhead() (n int, apart bool) {
	if x.Signer == nil {
		return MaxReplyHeader, true
	}
	_, overhead := x.Signer.Overhead()
	return rpcmsg.AcceptedLen + overhead, !x.Signer.Whole()
}

// Sent tells the Signer that the message appended last is in the connection's queue.
func (x *Exchange) Sent() {
	if x.Signer != nil {
		x.Signer.Sent()
	}
}

// A ReplyError reports that the server did not execute the procedure (RFC
// 5531, Section 9, accept_stat).
type ReplyError struct {
	Stat      uint32
	Low, High uint32 // for PROG_MISMATCH: the lowest and highest version that the server has
}

// Error names the accept_stat.
func (e *ReplyError) Error() string {
	switch e.Stat {
	case rpcmsg.ProgUnavail:
		return "oncrpc: the server does not have the program"
	case rpcmsg.ProgMismatch:
		return fmt.Sprintf("oncrpc: the server has versions %d to %d of the program only", e.Low, e.High)
	case rpcmsg.ProcUnavail:
		return "oncrpc: the server does not have the procedure"
	case rpcmsg.GarbageArgs:
		return "oncrpc: the server cannot decode the arguments"
	case rpcmsg.SystemErr:
		return "oncrpc: the server failed"
	}
	return fmt.Sprintf("oncrpc: undefined accept_stat %d", e.Stat)
}

// Is makes a Caller's errors match a Handler's.
func (e *ReplyError) Is(target error) bool {
	switch target {
	case ErrProgUnavail:
		return e.Stat == rpcmsg.ProgUnavail
	case ErrProcUnavail:
		return e.Stat == rpcmsg.ProcUnavail
	case ErrGarbageArgs:
		return e.Stat == rpcmsg.GarbageArgs
	}
	return false
}

// ErrProgUnavail matches a ReplyError if the server lacks the program.
var ErrProgUnavail = errors.New("oncrpc: program unavailable")

// errReply reports a reply that violates RFC 5531.
var errReply = errors.New("oncrpc: malformed reply")

// AppendCall appends a call message up to its arguments (RFC 5531, Section 9).
// machine is the name for AUTH_SYS, at most 255 bytes.
func AppendCall(b []byte, xid uint32, x *Exchange, machine string) []byte {
	if x.Relay {
		return xdr.AppendUint32(b, xid)
	}
	for _, v := range [...]uint32{xid, rpcmsg.MsgCall, rpcmsg.Version, x.Prog, x.Vers, x.Proc} {
		b = xdr.AppendUint32(b, v)
	}
	b = appendCred(b, &x.Cred, machine)
	b = xdr.AppendUint32(b, rpcmsg.AuthNone)
	return xdr.AppendUint32(b, 0)
}

// appendCred appends the credential. It sends only the first 16 groups (RFC
// 5531, Appendix A).
func appendCred(b []byte, c *rpcmsg.Cred, machine string) []byte {
	b = xdr.AppendUint32(b, c.Flavor)
	if c.Flavor == rpcmsg.AuthNone {
		return xdr.AppendUint32(b, 0)
	}
	gids := c.GIDs[:min(len(c.GIDs), rpcmsg.MaxGIDs)]
	machine = machine[:min(len(machine), rpcmsg.MaxMachineName)]
	b = xdr.AppendUint32(b, uint32(5*4+len(machine)+xdr.Pad(len(machine))+4*len(gids)))
	b = xdr.AppendUint32(b, 0) // stamp
	b = xdr.AppendString(b, machine)
	b = xdr.AppendUint32(b, c.UID)
	b = xdr.AppendUint32(b, c.GID)
	b = xdr.AppendUint32(b, uint32(len(gids)))
	for _, g := range gids {
		b = xdr.AppendUint32(b, g)
	}
	return b
}

// MaxReplyHeader is the maximum length in bytes of an accepted reply before its results,
// with a verifier of 400 bytes.
const MaxReplyHeader = rpcmsg.AcceptedLen + rpcmsg.MaxAuthBody

// ReadReply reads the reply to call xid up to its results, and leaves r there.
// The error is a ReplyError or an AuthError if the server rejected the call. Any
// other error means that the reply is malformed.
func ReadReply(r *xdr.Reader, xid uint32) error {
	_, stat, err := readAccepted(r, xid)
	if err != nil {
		return err
	}
	return readStat(r, stat)
}

// readAccepted reads a reply up to its accept_stat. A denied reply is an error.
func readAccepted(r *xdr.Reader, xid uint32) (verf rpcmsg.OpaqueAuth, stat uint32, err error) {
	got, direction, stat := r.Uint32(), r.Uint32(), r.Uint32()
	switch {
	case r.Err() != nil:
		return verf, 0, fmt.Errorf("%w: %w", errReply, r.Err())
	case got != xid || direction != rpcmsg.MsgReply || stat > rpcmsg.MsgDenied:
		return verf, 0, fmt.Errorf("%w: xid %#08x, msg_type %d, reply_stat %d", errReply, got, direction, stat)
	case stat == rpcmsg.MsgDenied:
		return verf, 0, readDenied(r)
	}
	verf = rpcmsg.OpaqueAuth{Flavor: r.Uint32(), Body: r.Opaque(rpcmsg.MaxAuthBody)}
	if stat = r.Uint32(); r.Err() != nil {
		return verf, 0, fmt.Errorf("%w: %w", errReply, r.Err())
	}
	return verf, stat, nil
}

// readStat converts an accept_stat into an error, and reads the fields that follow it.
func readStat(r *xdr.Reader, stat uint32) error {
	if stat == rpcmsg.Success {
		return nil
	}
	e := &ReplyError{Stat: stat}
	if stat == rpcmsg.ProgMismatch {
		e.Low, e.High = r.Uint32(), r.Uint32()
	}
	if r.Err() != nil {
		return fmt.Errorf("%w: %w", errReply, r.Err())
	}
	return e
}

// readDenied reads a reply after MSG_DENIED.
func readDenied(r *xdr.Reader) error {
	reject, value := r.Uint32(), r.Uint32()
	switch {
	case r.Err() != nil:
		return fmt.Errorf("%w: %w", errReply, r.Err())
	case reject == rpcmsg.DeniedAuth:
		return rpcmsg.AuthError(value)
	}
	return fmt.Errorf("%w: the server speaks another version of RPC", errReply)
}
