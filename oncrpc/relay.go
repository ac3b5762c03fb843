package oncrpc

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// What is here is for who passes on the calls of others (Exchange.Relay): looks
// into them, and answers some.

// ParseCall reads a call message up to its arguments, where Args stands; of the
// credential it looks at Flavor alone. With a header that cannot be read, Args
// has the error, and what comes behind the fault is zero. ok is false for a
// message that gets no answer: one that is no call, or too short for one.
func ParseCall(msg []byte) (c Call, ok bool) {
	r := xdr.NewReader(msg)
	h, err := rpcmsg.ReadCall(&r)
	if errors.Is(err, ErrNoAnswer) {
		return Call{}, false
	}
	if err != nil {
		r.Fail(err)
	}
	return Call{
		XID: h.XID, Prog: h.Prog, Vers: h.Vers, Proc: h.Proc,
		Cred: rpcmsg.Cred{Flavor: h.Cred.Flavor, UID: rpcmsg.Nobody, GID: rpcmsg.Nobody}, Args: r,
	}, true
}

// TakeReply gives the reply to call xid to the caller: in Reply with Relay, else
// Results stand behind its header. It is for transports, which own msg until
// there is no error. That is what ReadReply says.
func (x *Exchange) TakeReply(msg []byte, xid uint32) error {
	r := xdr.NewReader(msg)
	if !x.Relay {
		err := ReadReply(&r, xid)
		x.Results = r
		return err
	}
	got, direction := r.Uint32(), r.Uint32()
	switch {
	case r.Err() != nil:
		return fmt.Errorf("%w: %w", errReply, r.Err())
	case got != xid || direction != rpcmsg.MsgReply:
		return fmt.Errorf("%w: xid %#08x, msg_type %d", errReply, got, direction)
	}
	x.Reply = msg
	return nil
}

// AppendSystemErr appends the answer to a call that cannot be passed on.
func AppendSystemErr(b []byte, xid uint32) []byte {
	return rpcmsg.AppendAccepted(b, xid, rpcmsg.SystemErr)
}
