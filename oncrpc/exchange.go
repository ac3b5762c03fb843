package oncrpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// An Exchange is one call and its reply, as a client sees them. The caller
// fills in the first part; Call fills in the results. It may be used again
// after Release.
type Exchange struct {
	Prog, Vers, Proc uint32
	Cred             rpcmsg.Cred

	// Args are the encoded arguments, up to and including the length word
	// of Item where there is one. Tail is what follows the item and its
	// padding. Args, Item and Tail are read until Call returns.
	Args, Item, Tail []byte

	// Relay is for a call of somebody else that is passed on: Args begin
	// behind its XID, with its header as it came, and Reply and Placed are
	// filled in, not Results. Prog and Vers are what the header says; Cred
	// is not looked at.
	Relay bool

	// MaxResults is the length in octets of the longest results that the
	// procedure can have, without the data item that goes to Sink.
	MaxResults int

	// Sink is where the data item of the results goes, if the procedure
	// has one: a slice as long as the longest item. All of it may be written to
	// until Call returns, also what lies behind the item, and not after.
	Sink []byte

	// Results stands at the first octet of the results of a successful
	// call. Its method Item returns the data item: the start of Sink, or
	// else a slice valid until Release.
	Results xdr.Reader

	// Reply is the reply message from its XID on, whatever it says, without
	// the first Placed octets of Sink and their padding. It may be written
	// to, and is valid until Release.
	Reply  []byte
	Placed int

	// Lent is the buffer that Results or Reply alias, if any.
	Lent *buf.Buf
}

// Release gives back what Results or Reply alias.
func (x *Exchange) Release() {
	x.Results, x.Reply, x.Placed = xdr.Reader{}, nil, 0
	if x.Lent != nil {
		x.Lent.Release()
		x.Lent = nil
	}
}

// A Caller makes calls to one server. Call sends the call, waits for the reply
// and returns nil where the server executed the procedure: x.Results then
// stand at its results. Otherwise the error is or wraps a ReplyError, an
// AuthError, the cause of ctx's end, or what became of the connection; nothing
// needs to be released then. With x.Relay every reply is one, and a nil error.
// Calls of several goroutines are under way at the same time.
type Caller interface {
	Call(ctx context.Context, x *Exchange) error
}

// A ReplyError is the answer of a server that did not execute the procedure
// (RFC 5531, Section 9, accept_stat).
type ReplyError struct {
	Stat      uint32
	Low, High uint32 // of PROG_MISMATCH: the versions that the server has
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

// Is makes the errors of a Handler and those of a Caller the same.
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

// ErrProgUnavail is the ReplyError of a server that lacks the program.
var ErrProgUnavail = errors.New("oncrpc: program unavailable")

// errReply: a reply that does not keep to RFC 5531.
var errReply = errors.New("oncrpc: malformed reply")

// AppendCall appends a call message up to its arguments (RFC 5531, Section 9).
// machine is the name that AUTH_SYS carries, of at most 255 octets.
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

// appendCred appends the credential. Of more than 16 groups the first 16 are
// sent (RFC 5531, Appendix A).
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

// MaxReplyHeader is the length in octets of the longest accepted reply before
// its results: with a verifier of 400 octets.
const MaxReplyHeader = rpcmsg.AcceptedLen + rpcmsg.MaxAuthBody

// ReadReply reads the reply to call xid up to its results, where r is left. An
// error is a ReplyError or an AuthError where the server refused, else the
// reply is malformed.
func ReadReply(r *xdr.Reader, xid uint32) error {
	got, direction, stat := r.Uint32(), r.Uint32(), r.Uint32()
	switch {
	case r.Err() != nil:
		return fmt.Errorf("%w: %w", errReply, r.Err())
	case got != xid || direction != rpcmsg.MsgReply || stat > rpcmsg.MsgDenied:
		return fmt.Errorf("%w: xid %#08x, msg_type %d, reply_stat %d", errReply, got, direction, stat)
	case stat == rpcmsg.MsgDenied:
		return readDenied(r)
	}
	r.Uint32() // the verifier's flavour
	r.Opaque(rpcmsg.MaxAuthBody)
	stat = r.Uint32()
	if r.Err() == nil && stat == rpcmsg.Success {
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

// readDenied reads what follows MSG_DENIED.
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
