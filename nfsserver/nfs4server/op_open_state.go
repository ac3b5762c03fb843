package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// claimsWriteDelegation reports whether an OPEN relies on a write delegation of the object with
// the given key.
func (x *compound) claimsWriteDelegation(a *nfs4.OpenArgs, key []byte) bool {
	return claimsDelegation(a) && x.server.state.DelegationType(x.session, string(key)) == nfs4.DelegateWrite
}

// checkShare returns the status of an OPEN that a share reservation denies: it must not recall
// delegations first. addOpen checks again, because the recall may take some time.
func (x *compound) checkShare(a *nfs4.OpenArgs, key []byte) nfs4.Status {
	args := x.openFileArgs(a)
	args.Key = string(key)
	return x.server.state.MayShare(x.session, &args)
}

// openTruncated adds an open of the current object to the state and truncates the object. If
// that fails, the state must not change.
func (x *compound) openTruncated(ctx context.Context, a *nfs4.OpenArgs, res *nfs4.OpenRes, key []byte, opened *exportset.Open) nfs4.Status {
	var trial nfs4state.Trial
	openFile, status := x.addOpen(a, res, key, opened, &trial)
	if status != nfs4.OK {
		return status
	}
	if err := x.truncateFile(ctx, openFile); err != nil {
		x.server.state.RevertTrial(&trial)
		return x.toStatus(err)
	}
	x.server.state.KeepTrial(&trial)
	res.AttrSet.Set(nfs4.AttrSize)
	return nfs4.OK
}

// addOpen adds an open of the current object to the state, which takes ownership of opened. It
// returns the stateid's open file. trial belongs to an OPEN that may still fail, or is nil.
func (x *compound) addOpen(
	a *nfs4.OpenArgs, res *nfs4.OpenRes, key []byte, opened *exportset.Open, trial *nfs4state.Trial,
) (*exportset.Open, nfs4.Status) {
	args := x.openFileArgs(a)
	args.Key, args.Handle, args.Trial = string(key), string(x.fileHandle(&x.current)), trial
	o, id, status := x.server.state.OpenFile(x.session, &args, opened)
	if status != nfs4.OK {
		return nil, status
	}
	openFile := openOf(o.File)
	if openFile.IsRemoved() { // revokeRemoved may have run before
		x.server.state.Close(x.session, &id)
		if trial != nil {
			x.server.state.RevertTrial(trial)
		}
		return nil, nfs4.ErrStale
	}
	res.StateID = id
	x.attributeChanges(&x.current)
	if x.minor > nfs4.Minor0 && x.server.state.MayNotify(o) {
		res.Flags |= nfs4.OpenMayNotifyLock
	}
	return openFile, nfs4.OK
}

// openFileArgs returns OPEN's arguments for the state, without an object.
func (x *compound) openFileArgs(a *nfs4.OpenArgs) nfs4state.OpenFile {
	return nfs4state.OpenFile{
		Aside: x,
		Owner: a.Owner.Owner, Access: a.ShareAccess & nfs4.ShareBoth, Deny: a.ShareDeny, Reclaim: a.Claim == nfs4.ClaimPrevious,
		Claimed: claimsDelegation(a), Delegated: reclaimedDelegation(a),
	}
}

// reclaimedDelegation returns the delegation that an OPEN reclaims. For the state, a write delegation
// with attributes is like any other.
func reclaimedDelegation(a *nfs4.OpenArgs) nfs4.Delegation {
	switch {
	case a.Claim != nfs4.ClaimPrevious:
		return nfs4.DelegateNone
	case a.Delegation == nfs4.DelegateWriteAttrs:
		return nfs4.DelegateWrite
	}
	return a.Delegation
}

// truncateFile truncates the current object. The change must have been announced.
func (x *compound) truncateFile(ctx context.Context, openFile *exportset.Open) error {
	u := x.current.use
	if f := u.FileOf(openFile, vfs.OpenWrite); f != nil {
		defer f.Done()
		return f.SetSize(ctx, 0)
	}
	_, err := u.Export.FS.SetAttr(ctx, &u.Cred, x.current.h, vfs.SetAttr{Size: new(uint64)}, nil)
	return err
}
