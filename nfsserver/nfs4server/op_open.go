package nfs4server

import (
	"context"
	"encoding/binary"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// serveOpen implements OPEN (RFC 8881, Section 18.16).
func serveOpen(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.OpenArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	status := x.checkOpenArgs(&a)
	if status == nfs4.OK && x.current.wrongSec {
		status = nfs4.ErrWrongSec
	}
	if status == nfs4.OK {
		o := x.openFileArgs(&a)
		status = x.server.state.MayOpen(x.session, &o)
	}
	if status == nfs4.OK && reclaimedDelegation(&a) > nfs4.DelegateWrite {
		status = nfs4.ErrReclaimBad // no such delegation was granted
	}
	if status != nfs4.OK {
		return status
	}
	res := &x.results.open
	*res = nfs4.OpenRes{Flags: nfs4.OpenLocktypePosix}
	dir := x.current
	switch a.Claim {
	case nfs4.ClaimNull, nfs4.ClaimDelegateCur:
		status = x.openName(ctx, &a, res)
	case nfs4.ClaimFH, nfs4.ClaimPrevious, nfs4.ClaimDelegCurFH:
		status = x.openExisting(ctx, &a, res)
	default:
		status = nfs4.ErrNotSupp // delegations of clients from before a restart
	}
	if status != nfs4.OK {
		x.current = dir
		return status
	}
	res.Delegation = x.grantDelegation(ctx, &a)
	x.current.stateid, x.current.hasStateID = res.StateID, true
	if x.minor >= nfs4.Minor2 && a.ShareAccess&nfs4.WantOpenXorDelegation != 0 {
		x.returnOneStateID(&a, res)
	}
	x.requestConfirm(&a, res)
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// checkOpenArgs checks the arguments of OPEN that depend on no file.
func (x *compound) checkOpenArgs(a *nfs4.OpenArgs) nfs4.Status {
	wants := nfs4.WantDelegMask | nfs4.WantSignalAvail | nfs4.WantPushDeleg
	switch x.minor {
	case nfs4.Minor0:
		wants = 0
	case nfs4.Minor2:
		wants = ^nfs4.ShareBoth & ^uint32(0xfc) // later documents add more want bits
	}
	access := a.ShareAccess &^ wants
	switch {
	case access == 0, access&^nfs4.ShareBoth != 0, a.ShareDeny&^nfs4.ShareBoth != 0:
		return nfs4.ErrInval
	case a.ShareAccess&nfs4.WantDelegMask > nfs4.WantCancel:
		return nfs4.ErrInval
	case a.How != nfs4.NoCreate && a.Claim != nfs4.ClaimNull:
		return nfs4.ErrInval
	case x.minor > nfs4.Minor0 && a.How != nfs4.NoCreate && (a.Attrs.Mask.Has(nfs4.AttrModeSetMasked) || hasBadMode(&a.Attrs)):
		return nfs4.ErrInval // even if the file exists (RFC 8881, Sections 6.2.4 and 6.2.5)
	case x.current.node != nil && a.Claim != nfs4.ClaimNull:
		return nfs4.ErrIsDir
	}
	return nfs4.OK
}

// openName opens a name in the current directory, and creates it if OPEN requests that.
func (x *compound) openName(ctx context.Context, a *nfs4.OpenArgs, res *nfs4.OpenRes) nfs4.Status {
	if status := x.checkDirectory(ctx, &x.current); status != nfs4.OK {
		return status
	}
	if status := x.checkName(a.Name); status != nfs4.OK {
		return status
	}
	if x.current.node != nil || x.findJunction(ctx, &x.current, string(a.Name)) != nil {
		return x.openNode(ctx, a)
	}
	u, dir, name := x.current.use, x.current.h, string(a.Name)
	if a.How == nfs4.Exclusive || a.How == nfs4.Exclusive1 {
		return x.openNew(ctx, a, res)
	}
	h, _, dirAttr, err := u.Export.FS.Lookup(ctx, &u.Cred, dir, name)
	switch {
	case errors.Is(err, syscall.ENOENT) && a.How != nfs4.NoCreate:
		return x.openNew(ctx, a, res)
	case err != nil:
		return x.toStatus(err)
	case a.How == nfs4.Guarded:
		return nfs4.ErrExist
	}
	if dirAttr.OK {
		c := changeAttr(&dirAttr.Attr)
		res.Dir = nfs4.ChangeInfo{Atomic: true, Before: c, After: c} // nothing has changed
	}
	x.current = object{use: u, h: h}
	return x.openExisting(ctx, a, res)
}

// openNode returns the status for a name that can only be a directory.
func (x *compound) openNode(ctx context.Context, a *nfs4.OpenArgs) nfs4.Status {
	switch status := x.lookupName(ctx, a.Name); {
	case status == nfs4.ErrNoEnt && a.How != nfs4.NoCreate:
		return nfs4.ErrROFS
	case status != nfs4.OK:
		return status
	case a.How == nfs4.Guarded:
		return nfs4.ErrExist
	}
	return nfs4.ErrIsDir
}

// openNew creates a file and opens it.
func (x *compound) openNew(ctx context.Context, a *nfs4.OpenArgs, res *nfs4.OpenRes) nfs4.Status {
	allowed := settableAttrs
	if a.How == nfs4.Exclusive1 {
		allowed = exclusiveAttrs
	}
	allowed.Set(nfs4.AttrModeUmask)
	set, l, done, status := x.newObjectAttrs(ctx, &a.Attrs, allowed, vfs.TypeReg)
	switch {
	case status != nfs4.OK:
		return status
	case x.checkWritable(&x.current) != nfs4.OK:
		return nfs4.ErrROFS
	case !mayGiveAway(x.current.use, &set):
		return nfs4.ErrPerm
	}
	u, p := x.current.use, exportset.Place{Dir: x.current.h, Name: string(a.Name)}
	how := vfs.CreateHow{Mode: vfs.Guarded, Attr: set}
	if a.How == nfs4.Exclusive || a.How == nfs4.Exclusive1 {
		how = vfs.CreateHow{Mode: vfs.Exclusive, Attr: set, Verifier: binary.BigEndian.Uint64(a.Verf[:])}
	}
	if err := u.BeforeMake(ctx, p, exportset.KeepObject); err != nil {
		return x.toStatus(err)
	}
	made, opened, err := u.CreateFile(withAtomicChange(ctx, u), p, how, toOpenAccess(a.ShareAccess))
	u.EndChange()
	if errors.Is(err, syscall.EEXIST) && a.How == nfs4.Unchecked {
		h, _, _, err := u.Export.FS.Lookup(ctx, &u.Cred, p.Dir, p.Name) // another call was faster
		if err != nil {
			return x.toStatus(err)
		}
		x.current = object{use: u, h: h}
		return x.openExisting(ctx, a, res)
	}
	if err != nil {
		return x.toStatus(err)
	}
	x.current = object{use: u, h: made.Handle}
	// Another client may have opened the file, particularly if an earlier call created it.
	key, err := x.objectKey(&x.current)
	status = x.toStatus(err)
	if status == nfs4.OK {
		status = x.checkShare(a, key)
	}
	if status != nfs4.OK {
		opened.Close()
		return status
	}
	if conflictsWithDelegations(a.ShareAccess, a.ShareDeny) || set.GID != nil {
		err = u.BeforeOpenWrite(ctx, made.Handle)
	} else {
		err = u.BeforeRead(ctx, made.Handle)
	}
	if err != nil && how.Mode == vfs.Exclusive { // the client's next call finds its file again
		opened.Close()
		return x.toStatus(err)
	}
	res.Dir, res.AttrSet = changeInfo(u, &made.Dir), x.setInitialACLs(ctx, l, x.setInitialGroup(ctx, &set, done))
	if how.Mode == vfs.Exclusive {
		// The verifier is stored in the times.
		res.AttrSet.Set(nfs4.AttrTimeAccessSet)
		res.AttrSet.Set(nfs4.AttrTimeModifySet)
	}
	return x.openCreated(ctx, a, res, opened)
}

// openCreated opens the current object, which the caller has just created and opened, or found
// with its verifier.
func (x *compound) openCreated(ctx context.Context, a *nfs4.OpenArgs, res *nfs4.OpenRes, opened *exportset.Open) nfs4.Status {
	o := &x.current
	attr, status := x.checkOpenable(ctx)
	if status == nfs4.OK && o.use.IsStranger(&vfs.MaybeAttr{OK: true, Attr: attr}) {
		// Another user's file, whose times match the verifier.
		status = x.checkOpenRights(ctx, o, a.ShareAccess&nfs4.ShareBoth)
	}
	var key []byte
	if status == nfs4.OK {
		var err error
		key, err = x.objectKey(o)
		status = x.toStatus(err)
	}
	if status != nfs4.OK {
		opened.Close()
		return status
	}
	_, status = x.addOpen(a, res, key, opened, nil)
	return status
}

// openExisting opens the current object, which existed before.
func (x *compound) openExisting(ctx context.Context, a *nfs4.OpenArgs, res *nfs4.OpenRes) nfs4.Status {
	o := &x.current
	if _, status := x.checkOpenable(ctx); status != nfs4.OK {
		return status
	}
	if claimsDelegation(a) {
		if _, status := x.claimedDelegation(&a.StateID); status != nfs4.OK {
			return status
		}
	}
	access := a.ShareAccess & nfs4.ShareBoth
	empty := a.How == nfs4.Unchecked && a.Attrs.Mask.Has(nfs4.AttrSize) && a.Attrs.Size == 0
	if empty {
		access |= nfs4.ShareWrite
	}
	checkRights := x.checkOpenRights
	if a.Claim == nfs4.ClaimPrevious {
		checkRights = x.checkReopenRights
	}
	if status := checkRights(ctx, o, access); status != nfs4.OK {
		return status
	}
	key, err := x.objectKey(o)
	if err != nil {
		return x.toStatus(err)
	}
	if empty && a.ShareAccess&nfs4.ShareWrite == 0 {
		switch status := x.server.state.Denied(string(key), nfs4.ShareWrite); status {
		case nfs4.OK:
		case nfs4.ErrLocked:
			return nfs4.ErrShareDenied
		default:
			return status
		}
	}
	opposes := conflictsWithDelegations(access, a.ShareDeny)
	if opposes && a.Claim != nfs4.ClaimPrevious && !x.claimsWriteDelegation(a, key) && x.server.state.HasEarlierDelegations() {
		return nfs4.ErrGrace
	}
	if status := x.checkShare(a, key); status != nfs4.OK {
		return status
	}
	switch {
	case opposes && a.Claim == nfs4.ClaimPrevious && !empty:
		err = o.use.BeforeReclaim(ctx, o.h)
	case opposes:
		err = o.use.BeforeOpenWrite(ctx, o.h)
	case a.Claim != nfs4.ClaimPrevious && !claimsDelegation(a): // other claims conflict with no delegation
		err = o.use.BeforeRead(ctx, o.h)
	}
	if err != nil {
		return x.toStatus(err)
	}
	opened, err := o.use.OpenFile(ctx, o.h, toOpenAccess(a.ShareAccess))
	if err != nil {
		return x.toStatus(err)
	}
	if empty {
		return x.openTruncated(ctx, a, res, key, opened)
	}
	_, status := x.addOpen(a, res, key, opened, nil)
	return status
}

// conflictsWithDelegations reports whether an open with these modes excludes other clients'
// delegations: a delegation represents an open for reading.
func conflictsWithDelegations(access, deny uint32) bool {
	return access&nfs4.ShareWrite != 0 || deny&nfs4.ShareRead != 0
}

// checkOpenable returns the current object's attributes if it can be opened.
func (x *compound) checkOpenable(ctx context.Context) (vfs.Attr, nfs4.Status) {
	attr, status := x.getAttr(ctx, &x.current)
	if status == nfs4.OK {
		status = checkRegular(&attr)
	}
	if status == nfs4.ErrWrongType {
		// Linux opens a pipe or a device itself only after this status: with the other one, its
		// programs see EIO.
		status = nfs4.ErrSymlink
	}
	return attr, status
}

// checkOpenRights checks the caller's rights to open an existing file. A caller that may
// execute a file may read it.
func (x *compound) checkOpenRights(ctx context.Context, o *object, want uint32) nfs4.Status {
	if want&nfs4.ShareWrite != 0 && o.use.Options.ReadOnly {
		return nfs4.ErrROFS
	}
	const asked = vfs.AccessRead | vfs.AccessExecute | vfs.AccessModify
	rights, _, err := o.use.Export.FS.Access(ctx, &o.use.Cred, o.h, asked)
	switch {
	case err != nil:
		return x.toStatus(err)
	case want&nfs4.ShareRead != 0 && rights&(vfs.AccessRead|vfs.AccessExecute) == 0,
		want&nfs4.ShareWrite != 0 && rights&vfs.AccessModify == 0:
		return nfs4.ErrAccess
	}
	return nfs4.OK
}

// checkReopenRights checks the rights for an open that the caller had before a restart. The
// file's mode may no longer permit its owner to open it, such as 0444 for a file that the open
// created; OpenFile permits the owner, and checks other callers.
func (x *compound) checkReopenRights(_ context.Context, o *object, want uint32) nfs4.Status {
	if want&nfs4.ShareWrite != 0 && o.use.Options.ReadOnly {
		return nfs4.ErrROFS
	}
	return nfs4.OK
}

// objectKey returns the key that identifies an object in the state: the same for all its
// handles, if the file system can tell. It is valid until the next call.
func (x *compound) objectKey(o *object) ([]byte, error) {
	var err error
	x.keyBuf, err = o.use.AppendObject(x.keyBuf[:0], o.h)
	return x.keyBuf, err
}
