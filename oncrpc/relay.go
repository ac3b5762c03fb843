package oncrpc

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// This file is for programs that forward other clients' calls (Exchange.Relay), inspect
// them, and reply to some.

// ParseCall reads a call message up to its arguments, and leaves Args there. It decodes
// only the credential's Flavor. If the header is malformed, Args has the error, and the
// fields after the fault are zero. ok is false for a message without a reply, because it
// is not a call or is too short.
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

// TakeReply stores the reply to call xid in x: it sets Reply if x.Relay is set, otherwise
// it positions Results after the header. TakeReply is for transports. If there is an
// error, which is as ReadReply's, the transport still owns msg.
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
	verf, acceptStat, err := readAccepted(&x.Results, xid)
	if err == nil && x.Signer != nil {
		err = x.Signer.Open(verf, acceptStat, &x.Results)
	}
	if err != nil {
		return err
	}
	return readStat(&x.Results, acceptStat)
}

// AppendSystemErr appends the reply to a call that cannot be forwarded.
func AppendSystemErr(b []byte, xid uint32) []byte {
	return rpcmsg.AppendAccepted(b, xid, rpcmsg.SystemErr)
}
