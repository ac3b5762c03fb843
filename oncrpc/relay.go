package oncrpc

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// This file is for programs that pass on the calls of other clients
// (Exchange.Relay), inspect them, and answer some.

// ParseCall reads a call message up to its arguments, and leaves Args there. It
// decodes only Flavor of the credential. If the header is malformed, Args has
// the error, and the fields after the fault are zero. ok is false for a message
// that gets no answer, because it is not a call or is too short.
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

// TakeReply hands the reply to call xid to x: it sets Reply if x.Relay is set,
// otherwise it positions Results after the header. TakeReply is for transports.
// A transport keeps the ownership of msg if there is an error, which is
// ReadReply's.
func (x *Exchange) TakeReply(msg []byte, xid uint32) error {
	r := xdr.NewReader(msg)
	if !x.Relay {
		x.Results = r
		return x.readResults(xid)
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

// readResults reads the reply that Results has, up to its results.
func (x *Exchange) readResults(xid uint32) error {
	verf, stat, err := readAccepted(&x.Results, xid)
	if err == nil && x.Signer != nil {
		err = x.Signer.Open(verf, stat, &x.Results)
	}
	if err != nil {
		return err
	}
	return readStat(&x.Results, stat)
}

// AppendSystemErr appends the answer to a call that cannot be passed on.
func AppendSystemErr(b []byte, xid uint32) []byte {
	return rpcmsg.AppendAccepted(b, xid, rpcmsg.SystemErr)
}
