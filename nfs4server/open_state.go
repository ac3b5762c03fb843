package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// claimsWriting reports whether an OPEN rests on a delegation for writing of the
// object with the given key.
func (x *compound) claimsWriting(a *nfs4.OpenArgs, key []byte) bool {
	return claimsDelegation(a) && x.server.state.Delegated(x.session, string(key)) == nfs4.DelegateWrite
}

// openEmpty adds an open of the current object to the state and empties the
// object, which may fail: an OPEN that fails changes nothing of the state.
func (x *compound) openEmpty(ctx context.Context, a *nfs4.OpenArgs, res *nfs4.OpenRes, key []byte, opened *realm.Open) nfs4.Status {
	var trial nfs4state.Trial
	has, status := x.addOpen(a, res, key, opened, &trial)
	if status != nfs4.OK {
		return status
	}
	if err := x.truncate(ctx, has); err != nil {
		x.server.state.Undo(&trial)
		return x.status(err)
	}
	x.server.state.Settle(&trial)
	res.AttrSet.Set(nfs4.AttrSize)
	return nfs4.OK
}

// addOpen adds an open of the current object to the state, which takes over
// opened. It returns all that is open by the stateid. trial is of an OPEN that may
// still fail, or nil.
func (x *compound) addOpen(
	a *nfs4.OpenArgs, res *nfs4.OpenRes, key []byte, opened *realm.Open, trial *nfs4state.Trial,
) (*realm.Open, nfs4.Status) {
	args := stateOf(a)
	args.Key, args.Handle, args.Trial = string(key), string(x.fh(&x.current)), trial
	o, id, status := x.server.state.OpenFile(x.session, &args, opened)
	if status != nfs4.OK {
		return nil, status
	}
	has := openOf(o.File)
	if has.Removed() { // ExportsChanged may have come before
		x.server.state.Close(x.session, &id)
		if trial != nil {
			x.server.state.Undo(trial)
		}
		return nil, nfs4.ErrStale
	}
	res.StateID = id
	if x.minor > nfs4.Minor0 && x.server.state.MayNotify(o) {
		res.Flags |= nfs4.OpenMayNotifyLock
	}
	return has, nfs4.OK
}

// stateOf returns the arguments of an OPEN for the state, for any object.
func stateOf(a *nfs4.OpenArgs) nfs4state.OpenFile {
	return nfs4state.OpenFile{
		Owner: a.Owner.Owner, Access: a.ShareAccess & nfs4.ShareBoth, Deny: a.ShareDeny, Reclaim: a.Claim == nfs4.ClaimPrevious,
		Claimed: claimsDelegation(a), Delegated: reclaimed(a),
	}
}

// reclaimed returns the delegation that an OPEN reclaims.
func reclaimed(a *nfs4.OpenArgs) nfs4.Delegation {
	if a.Claim != nfs4.ClaimPrevious {
		return nfs4.DelegateNone
	}
	return a.Delegation
}

// truncate empties the current object, whose change is announced.
func (x *compound) truncate(ctx context.Context, has *realm.Open) error {
	u := x.current.use
	if f := u.FileOf(has, vfs.OpenWrite); f != nil {
		defer f.Done()
		return f.SetSize(ctx, 0)
	}
	_, err := u.Export.FS.SetAttr(ctx, &u.Cred, x.current.h, vfs.SetAttr{Size: new(uint64)}, nil)
	return err
}
