package nfs4server

import (
	"context"
	"encoding/binary"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// open is OPEN (RFC 8881, Section 18.16).
func open(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.OpenArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	status := x.openArgs(&a)
	if status == nfs4.OK && x.current.refused {
		status = nfs4.ErrWrongSec
	}
	if status == nfs4.OK {
		o := stateOf(&a)
		status = x.server.state.MayOpen(x.session, &o)
	}
	if status == nfs4.OK && a.Claim == nfs4.ClaimPrevious && a.Delegation > nfs4.DelegateWrite {
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
		status = x.openObject(ctx, &a, res)
	default:
		status = nfs4.ErrNotSupp // delegations of clients that are no more
	}
	if status != nfs4.OK {
		x.current = dir
		return status
	}
	res.Delegation = x.delegate(ctx, &a)
	x.confirms(&a, res)
	x.out = res.AppendTo(x.out)
	x.current.stateid, x.current.stated = res.StateID, true
	return nfs4.OK
}

// openArgs checks the arguments of OPEN alone.
func (x *compound) openArgs(a *nfs4.OpenArgs) nfs4.Status {
	wants := nfs4.WantDelegMask | nfs4.WantSignalAvail | nfs4.WantPushDeleg
	switch x.minor {
	case nfs4.Minor0:
		wants = 0
	case nfs4.Minor2:
		wants = ^nfs4.ShareBoth & ^uint32(0xfc) // later documents add more wishes
	}
	access := a.ShareAccess &^ wants
	switch {
	case access == 0, access&^nfs4.ShareBoth != 0, a.ShareDeny&^nfs4.ShareBoth != 0:
		return nfs4.ErrInval
	case a.ShareAccess&nfs4.WantDelegMask > nfs4.WantCancel:
		return nfs4.ErrInval
	case a.How != nfs4.NoCreate && a.Claim != nfs4.ClaimNull:
		return nfs4.ErrInval
	case x.minor > nfs4.Minor0 && a.How != nfs4.NoCreate && (a.Attrs.Mask.Has(nfs4.AttrModeSetMasked) || badMode(&a.Attrs)):
		return nfs4.ErrInval // also for a file that exists (RFC 8881, Sections 6.2.4 and 6.2.5)
	case x.current.node != nil && a.Claim != nfs4.ClaimNull:
		return nfs4.ErrIsDir
	}
	return nfs4.OK
}

// openName opens a name in the current directory, and creates it if OPEN asks
// for that.
func (x *compound) openName(ctx context.Context, a *nfs4.OpenArgs, res *nfs4.OpenRes) nfs4.Status {
	if status := x.directory(ctx, &x.current); status != nfs4.OK {
		return status
	}
	if status := x.checkName(a.Name); status != nfs4.OK {
		return status
	}
	if x.current.node != nil || x.junction(ctx, &x.current, string(a.Name)) != nil {
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
		return x.status(err)
	case a.How == nfs4.Guarded:
		return nfs4.ErrExist
	}
	if dirAttr.OK {
		c := changeOf(&dirAttr.Attr)
		res.Dir = nfs4.ChangeInfo{Atomic: true, Before: c, After: c} // nothing changed
	}
	x.current = object{use: u, h: h}
	return x.openObject(ctx, a, res)
}

// openNode answers OPEN of a name that can only be a directory.
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
	allowed := settable
	if a.How == nfs4.Exclusive1 {
		allowed = exclusive
	}
	allowed.Set(nfs4.AttrModeUmask)
	set, l, done, status := x.setNew(ctx, &a.Attrs, allowed, vfs.TypeReg)
	switch {
	case status != nfs4.OK:
		return status
	case x.mayChange(&x.current) != nfs4.OK:
		return nfs4.ErrROFS
	case !mayGive(x.current.use, &set):
		return nfs4.ErrPerm
	}
	u, p := x.current.use, realm.Place{Dir: x.current.h, Name: string(a.Name)}
	how := vfs.CreateHow{Mode: vfs.Guarded, Attr: set}
	if a.How == nfs4.Exclusive || a.How == nfs4.Exclusive1 {
		how = vfs.CreateHow{Mode: vfs.Exclusive, Attr: set, Verifier: binary.BigEndian.Uint64(a.Verf[:])}
	}
	if err := u.BeforeMake(ctx, p, realm.Leaves); err != nil {
		return x.status(err)
	}
	made, opened, err := u.CreateFile(naming(ctx, u), p, how, openAccess(a.ShareAccess))
	u.EndChange()
	if errors.Is(err, syscall.EEXIST) && a.How == nfs4.Unchecked {
		h, _, _, err := u.Export.FS.Lookup(ctx, &u.Cred, p.Dir, p.Name) // another call was faster
		if err != nil {
			return x.status(err)
		}
		x.current = object{use: u, h: h}
		return x.openObject(ctx, a, res)
	}
	if err != nil {
		return x.status(err)
	}
	x.current = object{use: u, h: made.Handle}
	// Another client may have opened the file, above all if an earlier call has made it.
	if opposesDelegations(a.ShareAccess, a.ShareDeny) || set.GID != nil {
		err = u.BeforeOpenWrite(ctx, made.Handle)
	} else {
		err = u.BeforeRead(ctx, made.Handle)
	}
	if err != nil && how.Mode == vfs.Exclusive { // the client's next call finds its file again
		opened.Close()
		return x.status(err)
	}
	res.Dir, res.AttrSet = changeInfo(u, &made.Dir), x.giveLists(ctx, l, x.give(ctx, &set, done))
	if how.Mode == vfs.Exclusive {
		// The verifier is kept in the times.
		res.AttrSet.Set(nfs4.AttrTimeAccessSet)
		res.AttrSet.Set(nfs4.AttrTimeModifySet)
	}
	return x.openMade(ctx, a, res, opened)
}

// openMade opens the current object, which the caller has just made and opened,
// or found with the caller's verifier.
func (x *compound) openMade(ctx context.Context, a *nfs4.OpenArgs, res *nfs4.OpenRes, opened *realm.Open) nfs4.Status {
	o := &x.current
	attr, status := x.openable(ctx)
	if status == nfs4.OK && o.use.Stranger(&vfs.MaybeAttr{OK: true, Attr: attr}) {
		// Another user's file, whose times are the verifier.
		status = x.mayOpen(ctx, o, a.ShareAccess&nfs4.ShareBoth)
	}
	var key []byte
	if status == nfs4.OK {
		var err error
		key, err = x.key(o)
		status = x.status(err)
	}
	if status != nfs4.OK {
		opened.Close()
		return status
	}
	_, status = x.addOpen(a, res, key, opened, nil)
	return status
}

// openObject opens the current object, which was there before.
func (x *compound) openObject(ctx context.Context, a *nfs4.OpenArgs, res *nfs4.OpenRes) nfs4.Status {
	o := &x.current
	if _, status := x.openable(ctx); status != nfs4.OK {
		return status
	}
	if claimsDelegation(a) {
		if _, status := x.claimed(&a.StateID); status != nfs4.OK {
			return status
		}
	}
	asked := a.ShareAccess & nfs4.ShareBoth
	empty := a.How == nfs4.Unchecked && a.Attrs.Mask.Has(nfs4.AttrSize) && a.Attrs.Size == 0
	if empty {
		asked |= nfs4.ShareWrite
	}
	may := x.mayOpen
	if a.Claim == nfs4.ClaimPrevious {
		may = x.mayReopen
	}
	if status := may(ctx, o, asked); status != nfs4.OK {
		return status
	}
	key, err := x.key(o)
	if err != nil {
		return x.status(err)
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
	switch opposes := opposesDelegations(asked, a.ShareDeny); {
	case opposes && a.Claim != nfs4.ClaimPrevious && !x.claimsWriting(a, key) && x.server.state.Trusted():
		return nfs4.ErrGrace
	case opposes:
		err = o.use.BeforeOpenWrite(ctx, o.h)
	case a.Claim != nfs4.ClaimPrevious && !claimsDelegation(a): // the others conflict with nobody
		err = o.use.BeforeRead(ctx, o.h)
	}
	if err != nil {
		return x.status(err)
	}
	opened, err := o.use.OpenFile(ctx, o.h, openAccess(a.ShareAccess))
	if err != nil {
		return x.status(err)
	}
	if empty {
		return x.openEmpty(ctx, a, res, key, opened)
	}
	_, status := x.addOpen(a, res, key, opened, nil)
	return status
}

// opposesDelegations reports whether nobody else may have a delegation of a file
// that is opened with some modes: delegations stand for opens for reading.
func opposesDelegations(access, deny uint32) bool {
	return access&nfs4.ShareWrite != 0 || deny&nfs4.ShareRead != 0
}

// openable returns the attributes of the current object if it can be opened.
func (x *compound) openable(ctx context.Context) (vfs.Attr, nfs4.Status) {
	attr, status := x.attr(ctx, &x.current)
	if status == nfs4.OK {
		status = regular(&attr)
	}
	if status == nfs4.ErrWrongType {
		// Linux opens a pipe or a device itself only after this status: with
		// the other one its programs see EIO.
		status = nfs4.ErrSymlink
	}
	return attr, status
}

// mayOpen checks the caller's rights to open an existing file. A caller that may
// execute a file may read it.
func (x *compound) mayOpen(ctx context.Context, o *object, want uint32) nfs4.Status {
	if want&nfs4.ShareWrite != 0 && o.use.Options.ReadOnly {
		return nfs4.ErrROFS
	}
	const asked = vfs.AccessRead | vfs.AccessExecute | vfs.AccessModify
	rights, _, err := o.use.Export.FS.Access(ctx, &o.use.Cred, o.h, asked)
	switch {
	case err != nil:
		return x.status(err)
	case want&nfs4.ShareRead != 0 && rights&(vfs.AccessRead|vfs.AccessExecute) == 0,
		want&nfs4.ShareWrite != 0 && rights&vfs.AccessModify == 0:
		return nfs4.ErrAccess
	}
	return nfs4.OK
}

// mayReopen is mayOpen for an open that the caller had before a restart. Its
// file may have a mode by which the owner may not open it now, such as 0444 of a
// file that the open made; OpenFile lets the owner, and checks other callers.
func (x *compound) mayReopen(_ context.Context, o *object, want uint32) nfs4.Status {
	if want&nfs4.ShareWrite != 0 && o.use.Options.ReadOnly {
		return nfs4.ErrROFS
	}
	return nfs4.OK
}

// key returns the name of an object for the state: the same for all its
// handles, if the file system can tell. It is valid until the next call.
func (x *compound) key(o *object) ([]byte, error) {
	var err error
	x.keyOf, err = o.use.AppendObject(x.keyOf[:0], o.h)
	return x.keyOf, err
}
