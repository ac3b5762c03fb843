package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// closeFile is CLOSE (RFC 8881, Section 18.2). Its stateid is of no use to the
// client, and Linux expects that it is the invalid one.
func closeFile(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.CloseArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	id, status := x.exact(ctx, &a.StateID)
	if status == nfs4.OK {
		status = x.server.state.Close(x.session, &id)
	}
	if status != nfs4.OK {
		return status
	}
	x.current.stated = false
	res := nfs4.StateIDRes{StateID: nfs4.InvalidStateID}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// openDowngrade is OPEN_DOWNGRADE (RFC 8881, Section 18.18).
func openDowngrade(ctx context.Context, x *compound) nfs4.Status {
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
	id, status := x.exact(ctx, &a.StateID)
	if status != nfs4.OK {
		return status
	}
	res := nfs4.StateIDRes{}
	if res.StateID, res.Status = x.server.state.Downgrade(x.session, &id, access, a.ShareDeny); res.Status != nfs4.OK {
		return res.Status
	}
	x.current.stateid, x.current.stated = res.StateID, true
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// exact returns the stateid of an operation that ends or changes an open of the
// current object: the current stateid keeps its seqid here (RFC 8881, Section
// 16.2.3.1.2).
func (x *compound) exact(ctx context.Context, id *nfs4.StateID) (nfs4.StateID, nfs4.Status) {
	exact := *id
	if exact == nfs4.CurrentStateID {
		if !x.current.stated {
			return exact, nfs4.ErrBadStateID
		}
		exact = x.current.stateid
	}
	o, status := x.server.state.Open(x.session, &exact) // the code that changes o judges the seqid
	switch {
	case status == nfs4.ErrAdminRevoked:
		return exact, status
	case o == nil, x.current.node != nil:
		return exact, nfs4.ErrBadStateID
	}
	if err := x.work(ctx, &x.current); err != nil {
		return exact, x.status(err) // the client has the file open nevertheless
	}
	key, err := x.key(&x.current)
	if err != nil {
		return exact, x.status(err)
	}
	if o.Key != string(key) {
		return exact, nfs4.ErrBadStateID
	}
	return exact, nfs4.OK
}
