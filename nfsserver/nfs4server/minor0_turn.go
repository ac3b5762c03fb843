package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// NFSv4.0 has no sessions. A COMPOUND acts for the client that an operation's client ID or
// stateid identifies, and the operations of open-owners and lock-owners have sequence numbers.

// actForClientID makes the COMPOUND act for the client with a client ID. In later versions
// SEQUENCE has already done that.
func (x *compound) actForClientID(id uint64) nfs4.Status {
	if x.minor > nfs4.Minor0 {
		return nfs4.OK
	}
	return x.actFor(x.server.state.ByClientID(x.callTransport(), x.callerHost(), id))
}

// actForStateID makes the COMPOUND act for the client to which a stateid was given.
func (x *compound) actForStateID(id *nfs4.StateID) nfs4.Status {
	if x.minor > nfs4.Minor0 {
		return nfs4.OK
	}
	return x.actFor(x.server.state.ByStateID(x.callTransport(), x.callerHost(), id))
}

// actFor makes the COMPOUND act for a session's client. Its changes count as the client's own,
// and do not recall the client's delegations, only if the caller created the client, or opens a
// file from the client's address: any caller may name any client (see attributeChanges).
func (x *compound) actFor(s *nfs4state.Session, status nfs4.Status) nfs4.Status {
	if status != nfs4.OK {
		return status
	}
	x.leaveClient()
	x.session = s
	by := s.MadeBy
	if x.op == nfs4.OpOpen {
		by = s.OpenedBy
	}
	var id uint64
	if by(x.callPrincipal(), x.clientParty()) {
		id = s.ClientID()
	}
	for _, u := range x.uses {
		u.Client = id
	}
	return nfs4.OK
}

// attributeChanges attributes an NFSv4.0 COMPOUND's changes in an object's export to the client
// for which it acts: an operation has used one of the client's stateids for the object.
func (x *compound) attributeChanges(o *object) {
	if x.minor == nfs4.Minor0 && o.use != nil {
		o.use.Client = x.session.ClientID()
	}
}

// leaveClient ends the call's use of the client for which an NFSv4.0 COMPOUND acts.
func (x *compound) leaveClient() {
	if x.minor == nfs4.Minor0 && x.session != nil {
		x.session.Leave()
		x.session = nil
	}
}

// executeInTurn executes an NFSv4.0 operation that has owners' sequence numbers, or replies to
// a retry with the cached reply. ctx is the connection's, and own the operation's.
func (x *compound) executeInTurn(ctx, own context.Context, o *operation) (status nfs4.Status) {
	t := &x.turn
	x.afterArgs = *x.args
	if status := x.readTurnArgs(&x.afterArgs); status != nfs4.OK {
		return status
	}
	t.Principal, t.Aside = x.callPrincipal(), x
	state := x.server.state
	if status := state.BeginTurn(ctx, x.session, t); status != nfs4.OK {
		return status
	}
	mark, done := len(x.out), false
	defer func() {
		var handle nfs4.FH
		reply := x.out[mark:]
		switch {
		case !done: // the operation has panicked
			status, reply = nfs4.ErrServerFault, nil
		case status == nfs4.OK && x.op == nfs4.OpOpen:
			handle = x.fileHandle(&x.current)
		}
		if len(reply) == 0 {
			reply = xdr.AppendUint32(x.statusBuf[:0], uint32(status))
		}
		state.EndTurn(t, status, reply, handle)
		*t, x.afterArgs = nfs4state.Turn{}, xdr.Reader{}
	}()
	switch {
	case t.Reply != nil:
		status = x.replayReply(own, t)
	case t.Refused != nfs4.OK:
		status = t.Refused
	default:
		status = x.minor0Status(o.execute(own, x), mark)
	}
	done = true
	return status
}

// StepAside releases the permit and the call's place in its connection before it waits for a
// turn: the operation whose turn it is may need them. Calls that need no journal also do this
// before they wait for it.
func (x *compound) StepAside() {
	x.releasePermits()
	x.reply.StepAside()
}

// Resume acquires a permit again (the Aside of calls to nfs4state).
func (x *compound) Resume() nfs4.Status {
	return x.toStatus(x.acquirePermit(context.Background(), &x.current))
}

// replayReply replies to a retry.
func (x *compound) replayReply(ctx context.Context, t *nfs4state.Turn) nfs4.Status {
	if len(t.Reply) > x.bytesLeft() {
		return nfs4.ErrResource
	}
	if len(t.Handle) > 0 {
		if err := x.setCurrentFH(ctx, t.Handle); err != nil {
			return x.toStatus(err)
		}
	}
	*x.args = x.afterArgs
	r := xdr.NewReader(t.Reply)
	x.out = append(x.out, t.Reply...)
	return nfs4.Status(r.Uint32())
}

// readTurnArgs reads the part of an operation's arguments that identifies the owners, and makes
// the COMPOUND act for their client.
func (x *compound) readTurnArgs(r *xdr.Reader) nfs4.Status {
	x.turn = nfs4state.Turn{Op: x.op}
	t := &x.turn
	status := nfs4.OK
	switch x.op {
	case nfs4.OpOpen:
		var a nfs4.OpenArgs
		a.Decode(r)
		if a.Claim > nfs4.ClaimDelegatePrev || a.How == nfs4.Exclusive1 || a.Delegation > nfs4.DelegateWrite {
			return nfs4.ErrBadXDR // values from later versions
		}
		t.Owner, t.SeqID = a.Owner.Owner, a.SeqID
		if r.Err() == nil {
			return x.actForClientID(a.Owner.ClientID)
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
				status = x.actForClientID(a.Owner.ClientID)
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
		if status = x.actForStateID(&t.StateID); status == nfs4.OK && x.session != owner {
			return nfs4.ErrBadStateID
		}
		return status
	}
	return x.actForStateID(&t.StateID)
}

// minor0Status converts an operation's status to one that NFSv4.0 has, also in the results that
// the operation has appended since mark.
func (x *compound) minor0Status(status nfs4.Status, mark int) nfs4.Status {
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
