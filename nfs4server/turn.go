package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// Version 4.0 has no sessions. A COMPOUND acts for the client that an operation's
// client ID or stateid tells, and the operations of open-owners and lock-owners
// have sequence numbers.

// byClientID makes the COMPOUND act for the client with a client ID. In later
// versions SEQUENCE has done so.
func (x *compound) byClientID(id uint64) nfs4.Status {
	if x.minor > nfs4.Minor0 {
		return nfs4.OK
	}
	return x.actFor(x.server.state.ByClientID(x.transport(), x.machine(), id))
}

// byStateID is byClientID for the client to which a stateid was given.
func (x *compound) byStateID(id *nfs4.StateID) nfs4.Status {
	if x.minor > nfs4.Minor0 {
		return nfs4.OK
	}
	return x.actFor(x.server.state.ByStateID(x.transport(), x.machine(), id))
}

func (x *compound) actFor(s *nfs4state.Session, status nfs4.Status) nfs4.Status {
	if status == nfs4.OK {
		x.leave()
		x.session = s
		for _, u := range x.uses {
			u.Client = s.ClientID()
		}
	}
	return status
}

// leave ends the calls of the client for which a COMPOUND of version 4.0 acts.
func (x *compound) leave() {
	if x.minor == nfs4.Minor0 && x.session != nil {
		x.session.Leave()
		x.session = nil
	}
}

// inTurn executes an operation of version 4.0 that has sequence numbers of owners,
// or answers a retry with the reply that was kept. ctx is the connection's, and
// own that of the operation.
func (x *compound) inTurn(ctx, own context.Context, o *operation) (status nfs4.Status) {
	t := &x.turn
	x.after = *x.args
	if status := x.turnArgs(&x.after); status != nfs4.OK {
		return status
	}
	t.Principal, t.Aside = x.principal(), x
	state := x.server.state
	if status := state.BeginTurn(ctx, x.session, t); status != nfs4.OK {
		return status
	}
	mark, done := len(x.out), false
	defer func() {
		var handle nfs4.FH
		reply := x.out[mark:]
		switch {
		case !done: // it has panicked
			status, reply = nfs4.ErrServerFault, nil
		case status == nfs4.OK && x.op == nfs4.OpOpen:
			handle = x.fh(&x.current)
		}
		if len(reply) == 0 {
			reply = xdr.AppendUint32(x.word[:0], uint32(status))
		}
		state.EndTurn(t, status, reply, handle)
		*t, x.after = nfs4state.Turn{}, xdr.Reader{}
	}()
	switch {
	case t.Reply != nil:
		status = x.repeat(own, t)
	case t.Refused != nfs4.OK:
		status = t.Refused
	default:
		status = x.plain(o.do(own, x), mark)
	}
	done = true
	return status
}

// StepAside gives up the permit and the call's place in its connection before the
// wait for a turn: the operation whose turn it is may need them.
func (x *compound) StepAside() {
	x.rest()
	x.reply.StepAside()
}

// repeat answers a retry.
func (x *compound) repeat(ctx context.Context, t *nfs4state.Turn) nfs4.Status {
	if len(t.Reply) > x.left() {
		return nfs4.ErrResource
	}
	if len(t.Handle) > 0 {
		if err := x.put(ctx, t.Handle); err != nil {
			return x.status(err)
		}
	}
	*x.args = x.after
	r := xdr.NewReader(t.Reply)
	x.out = append(x.out, t.Reply...)
	return nfs4.Status(r.Uint32())
}

// turnArgs reads the arguments of an operation as far as they tell the owners, and
// makes the COMPOUND act for their client.
func (x *compound) turnArgs(r *xdr.Reader) nfs4.Status {
	x.turn = nfs4state.Turn{Op: x.op}
	t := &x.turn
	status := nfs4.OK
	switch x.op {
	case nfs4.OpOpen:
		var a nfs4.OpenArgs
		a.Decode(r)
		if a.Claim > nfs4.ClaimDelegatePrev || a.How == nfs4.Exclusive1 || a.Delegation > nfs4.DelegateWrite {
			return nfs4.ErrBadXDR // values of later versions
		}
		t.Owner, t.SeqID = a.Owner.Owner, a.SeqID
		if r.Err() == nil {
			return x.byClientID(a.Owner.ClientID)
		}
	case nfs4.OpOpenConfirm:
		var a nfs4.OpenConfirmArgs
		a.Decode(r)
		t.StateID, t.SeqID = a.StateID, a.SeqID
	case nfs4.OpOpenDowngrade:
		var a nfs4.OpenDowngradeArgs
		a.Decode(r)
		t.StateID, t.SeqID = a.StateID, a.SeqID
	case nfs4.OpClose:
		var a nfs4.CloseArgs
		a.Decode(r)
		t.StateID, t.SeqID = a.StateID, a.SeqID
	case nfs4.OpLockU:
		var a nfs4.LockUArgs
		a.Decode(r)
		t.StateID, t.SeqID = a.StateID, a.SeqID
	case nfs4.OpLock:
		var a nfs4.LockArgs
		a.Decode(r)
		t.StateID, t.SeqID = a.StateID, a.LockSeqID
		if a.New {
			t.New, t.Owner, t.SeqID, t.LockSeqID = true, a.Owner.Owner, a.OpenSeqID, a.LockSeqID
			if r.Err() == nil {
				status = x.byClientID(a.Owner.ClientID)
			}
		}
	}
	switch {
	case r.Err() != nil:
		return nfs4.ErrBadXDR
	case status != nfs4.OK:
		return status
	case t.New:
		owner := x.session
		if status = x.byStateID(&t.StateID); status == nfs4.OK && x.session != owner {
			return nfs4.ErrBadStateID
		}
		return status
	}
	return x.byStateID(&t.StateID)
}

// plain returns the status of version 4.0 for a status of an operation, and puts it
// into the results that the operation has appended from mark on.
func (x *compound) plain(status nfs4.Status, mark int) nfs4.Status {
	word := status
	switch status {
	case nfs4.ErrWrongType:
		word = nfs4.ErrInval
	case nfs4.ErrSymlink:
		switch x.op {
		case nfs4.OpLock, nfs4.OpLockT, nfs4.OpLockU:
			word = nfs4.ErrInval
		case nfs4.OpLink:
			word = nfs4.ErrNotDir
		}
	case nfs4.ErrRepTooBig, nfs4.ErrRepTooBigToCache, nfs4.ErrTooManyOps:
		word = nfs4.ErrResource
	case nfs4.ErrBadSession:
		word = nfs4.ErrExpired
	}
	if word != status && len(x.out) > mark {
		xdr.AppendUint32(x.out[:mark], uint32(word))
	}
	return word
}
