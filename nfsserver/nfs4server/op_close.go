package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// serveClose implements CLOSE (RFC 8881, Section 18.2). Clients have no use for the returned
// stateid, and Linux expects the invalid one.
func serveClose(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.CloseArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	id, status := x.exactStateID(ctx, &a.StateID)
	if status == nfs4.OK {
		status = x.server.state.Close(x.session, &id)
	}
	if status != nfs4.OK {
		return status
	}
	x.current.hasStateID = false
	res := nfs4.StateIDRes{StateID: nfs4.InvalidStateID}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// freeLostStateID frees the revoked stateid of a CLOSE or DELEGRETURN that follows a PUTFH of a handle
// in a removed export. Linux forgets the stateid after NFS4ERR_STALE, without a FREE_STATEID. The flag
// SEQ4_STATUS_ADMIN_STATE_REVOKED would then remain in each reply, and Linux would recover its state
// over and over.
func (x *compound) freeLostStateID() {
	if x.minor == nfs4.Minor0 {
		return
	}
	rest := *x.args
	for i := x.opIndex + 1; i < x.opCount; i++ {
		var id nfs4.StateID
		switch nfs4.Op(rest.Uint32()) {
		case nfs4.OpGetAttr:
			new(nfs4.GetAttrArgs).Decode(&rest)
			continue
		case nfs4.OpClose:
			var a nfs4.CloseArgs
			a.Decode(&rest)
			id = a.StateID
		case nfs4.OpDelegReturn:
			var a nfs4.StateIDArgs
			a.Decode(&rest)
			id = a.StateID
		default:
			return
		}
		if rest.Err() == nil && x.server.state.TestStateID(x.session, &id) == nfs4.ErrAdminRevoked {
			x.server.state.FreeStateID(x.session, &id)
		}
		return
	}
}

// serveOpenDowngrade implements OPEN_DOWNGRADE (RFC 8881, Section 18.18).
func serveOpenDowngrade(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.OpenDowngradeArgs
	a.Decode(x.args)
	access := a.ShareAccess
	if x.minor > nfs4.Minor0 {
		access &^= nfs4.WantDelegMask
	}
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case access == 0, access&^nfs4.ShareBoth != 0, a.ShareDeny&^nfs4.ShareBoth != 0:
		return nfs4.ErrInval
	}
	id, status := x.exactStateID(ctx, &a.StateID)
	if status != nfs4.OK {
		return status
	}
	res := nfs4.StateIDRes{}
	if res.StateID, res.Status = x.server.state.Downgrade(x.session, &id, access, a.ShareDeny); res.Status != nfs4.OK {
		return res.Status
	}
	x.current.stateid, x.current.hasStateID = res.StateID, true
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// exactStateID returns the stateid for an operation that closes or changes an open of the
// current object. The current stateid keeps its seqid here (RFC 8881, Section 16.2.3.1.2).
func (x *compound) exactStateID(ctx context.Context, id *nfs4.StateID) (nfs4.StateID, nfs4.Status) {
	exact := *id
	if exact == nfs4.CurrentStateID {
		if !x.current.hasStateID {
			return exact, nfs4.ErrBadStateID
		}
		exact = x.current.stateid
	}
	o, status := x.server.state.Open(x.session, &exact) // the code that changes o checks the seqid
	switch {
	case status == nfs4.ErrAdminRevoked:
		return exact, status
	case o == nil, x.current.node != nil:
		return exact, nfs4.ErrBadStateID
	}
	if err := x.acquirePermit(ctx, &x.current); err != nil {
		return exact, x.toStatus(err) // the client still has the file open
	}
	key, err := x.objectKey(&x.current)
	if err != nil {
		return exact, x.toStatus(err)
	}
	if o.Key != string(key) {
		return exact, nfs4.ErrBadStateID
	}
	x.attributeChanges(&x.current)
	return exact, nfs4.OK
}
