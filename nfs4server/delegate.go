package nfs4server

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A delegated is the File of a Delegation: an open file for its stateid, and all
// that must end before others may change the object.
type delegated struct {
	*realm.Open
	server     *Server
	minor      uint32
	holder     recall.Holder
	lease      func()                // releases the file system's lease, if there is one
	delegation *nfs4state.Delegation // set before holder is confirmed
	told       bool                  // OPEN's results recall the delegation, so no call does
	writer     *writer               // of a delegation for writing, otherwise nil

	late atomic.Pointer[time.Timer] // of a recall: revokes the delegation
}

// openOf returns the File of an Open or of a Delegation.
func openOf(file any) *realm.Open {
	if f, ok := file.(*delegated); ok {
		return f.Open
	}
	return file.(*realm.Open)
}

// release ends f, at once or when the client has written back.
func (f *delegated) release() {
	if late := f.late.Load(); late != nil {
		late.Stop()
	}
	if f.writer == nil || !f.writer.returned() || !f.server.callbacks.begin(f.releaseWritten) {
		f.end()
	}
}

// end ends the file system's lease, and then lets changes go on.
func (f *delegated) end() {
	if f.lease != nil {
		f.lease()
	}
	if f.writer != nil {
		f.writer.end()
	}
	f.holder.Return()
	f.Close()
}

// delegate grants a delegation of the current object, which OPEN has just opened, or
// says why there is none (RFC 8881, Section 10.4). An open for reading gets one for
// reading, and another one for writing.
func (x *compound) delegate(ctx context.Context, a *nfs4.OpenArgs) nfs4.OpenDelegation {
	table, u := x.server.realm.Holders(), x.current.use
	reclaim := a.Claim == nfs4.ClaimPrevious
	write := a.ShareAccess&nfs4.ShareWrite != 0
	if reclaim {
		write = a.Delegation == nfs4.DelegateWrite
	}
	switch want := a.ShareAccess & nfs4.WantDelegMask; {
	case x.minor == nfs4.Minor0 && x.turn.Confirm && !reclaim:
		return nfs4.OpenDelegation{} // the open may be a retry of long ago (RFC 7530, Section 9.1.11)
	case want == nfs4.WantNoDeleg, want == nfs4.WantCancel:
		return noDelegation(a.ShareAccess, 0)
	case reclaim && a.Delegation == nfs4.DelegateNone, claimsDelegation(a):
		return nfs4.OpenDelegation{}
	case table == nil, u.Export.Keys == nil, !x.mayGrant(u, write) && (!reclaim || !write),
		write && !reclaim && want == nfs4.WantReadDeleg, !write && a.ShareAccess&nfs4.ShareWrite != 0:
		return noDelegation(a.ShareAccess, nfs4.WhyResource)
	}
	key, err := x.key(&x.current)
	if err != nil {
		return noDelegation(a.ShareAccess, nfs4.WhyResource)
	}
	if !reclaim {
		switch x.server.state.MayDelegate(x.session, string(key), write) {
		case nfs4.OK:
		case nfs4.ErrExist:
			return noDelegation(a.ShareAccess, x.whyNotChanged(a, key))
		case nfs4.ErrDelay:
			x.server.relieve(x.session)
			return noDelegation(a.ShareAccess, nfs4.WhyResource)
		default:
			return noDelegation(a.ShareAccess, nfs4.WhyContention)
		}
	}
	// Processes of the host may have changed a reclaimed file meanwhile, or no call may
	// be possible later: the delegation is recalled by the results (RFC 8881, Section 18.16.3).
	f := &delegated{server: x.server, minor: x.minor}
	f.told = reclaim && !(u.Options.Exclusive && x.mayGrant(u, write) && len(x.server.state.BackPaths(x.session.ClientID())) > 0)
	f.holder = recall.Holder{Owner: x.session.ClientID(), Mild: u.Options.Exclusive, Recall: f.recall}
	args := nfs4state.Delegate{
		Key: string(key), Handle: string(x.fh(&x.current)), Reclaim: reclaim, Write: write,
	}
	if write {
		f.writes()
		u.EndHeld() // the open is known to the state
	}
	if x.minor > nfs4.Minor0 {
		args.Referring = nfs4.ReferringCalls{
			Session: x.session.ID, Calls: []nfs4.ReferringCall{{Sequence: x.sequenceID, Slot: x.slot}},
		}
	}
	if !x.hold(ctx, f) {
		return noDelegation(a.ShareAccess, nfs4.WhyContention)
	}
	d, status := x.server.state.Delegate(x.session, &args, f)
	if status != nfs4.OK {
		return noDelegation(a.ShareAccess, nfs4.WhyContention)
	}
	f.delegation = d
	id := d.StateID()
	if !f.holder.Confirm() {
		x.server.state.ReturnDelegation(x.session, &id)
		return noDelegation(a.ShareAccess, nfs4.WhyContention)
	}
	granted := nfs4.OpenDelegation{Type: nfs4.DelegateRead, StateID: id, Recall: f.told}
	if write {
		granted.Type, granted.Limit = nfs4.DelegateWrite, f.writer.limit
	}
	if f.told {
		f.holder.Break()
	}
	return granted
}

// hold makes f a holder of the current object, with a lease of the file system
// unless the server itself makes every change, and opens the object. If hold
// returns false, f is nothing.
func (x *compound) hold(ctx context.Context, f *delegated) bool {
	u, h := x.current.use, x.current.h
	key, err := u.Key(h)
	if err != nil || !x.server.realm.Holders().Hold(&f.holder, key) {
		return false
	}
	if !u.Current() { // the new exports may not permit it, and all was recalled before Hold
		f.holder.Return()
		return false
	}
	if !u.Options.Exclusive && u.Export.Leaser != nil {
		scope := vfs.LeaseAll
		if f.writer != nil {
			scope = vfs.LeaseWrite
		}
		f.lease, err = u.Export.Leaser.Lease(ctx, &u.Cred, h, scope, f.holder.Break)
		if errors.Is(err, syscall.EMFILE) {
			x.server.relieve(nil)
		}
		if f.told && f.writer != nil {
			err = nil // the client writes back all the same
		}
	}
	if err == nil {
		f.Open, err = x.openDelegated(ctx, f.writer != nil)
	}
	if err == nil && f.writer != nil {
		err = f.writer.begin(ctx, u, h)
		if err != nil {
			f.Close()
		}
	}
	if err != nil {
		if f.lease != nil {
			f.lease()
		}
		f.holder.Return()
	}
	return err == nil
}

// mayGrant reports whether the client gets delegations in an export, as far as its options,
// its file system and the call's flavour are concerned. While a client has one for writing,
// others see the size that it tells by a callback, which is neither signed nor encrypted.
func (x *compound) mayGrant(u *use, write bool) bool {
	may := x.server.reads
	if write {
		f := x.call.Cred.Flavor
		may = x.server.writes && f != rpcmsg.AuthKrb5i && f != rpcmsg.AuthKrb5p
	}
	return may && (u.Options.Exclusive || u.Export.Leaser != nil)
}

// whyNotChanged is the reason why a client with a delegation of a file gets no other
// one: delegations are neither upgraded nor downgraded.
func (x *compound) whyNotChanged(a *nfs4.OpenArgs, key []byte) nfs4.WhyNone {
	has := x.server.state.Delegated(x.session, string(key))
	switch want := a.ShareAccess & nfs4.WantDelegMask; {
	case has == nfs4.DelegateRead && want == nfs4.WantWriteDeleg:
		return nfs4.WhyNotSuppUpgrade
	case has == nfs4.DelegateWrite && want == nfs4.WantReadDeleg:
		return nfs4.WhyNotSuppDowngrade
	}
	return nfs4.WhyContention
}

// openDelegated opens the current object for a delegation. The caller may be unable to
// read a file that it may write; reads by the delegation then go by the handle, as the
// callers that they come from.
func (x *compound) openDelegated(ctx context.Context, write bool) (*realm.Open, error) {
	u, h := x.current.use, x.current.h
	if !write {
		return u.OpenFile(ctx, h, vfs.OpenRead)
	}
	opened, err := u.OpenFile(ctx, h, vfs.OpenRead|vfs.OpenWrite)
	if errors.Is(err, syscall.EACCES) {
		opened, err = u.OpenFile(ctx, h, vfs.OpenWrite)
	}
	return opened, err
}

// noDelegation says why an OPEN gets no delegation, if the client has a wish.
func noDelegation(access uint32, why nfs4.WhyNone) nfs4.OpenDelegation {
	switch access & nfs4.WantDelegMask {
	case nfs4.WantNoPreference:
		return nfs4.OpenDelegation{}
	case nfs4.WantNoDeleg:
		why = nfs4.WhyNotWanted
	case nfs4.WantCancel:
		why = nfs4.WhyCancelled
	}
	return nfs4.OpenDelegation{Type: nfs4.DelegateNoneExt, Why: why}
}

// claimsDelegation reports whether an OPEN rests on a delegation that the client has.
func claimsDelegation(a *nfs4.OpenArgs) bool {
	return a.Claim == nfs4.ClaimDelegateCur || a.Claim == nfs4.ClaimDelegCurFH
}

// claimed returns the delegation by which the client opens the current object.
func (x *compound) claimed(id *nfs4.StateID) (*nfs4state.Delegation, nfs4.Status) {
	d, status := x.server.state.DelegationOf(x.session, id)
	if d == nil {
		return nil, status
	}
	key, err := x.key(&x.current)
	switch {
	case err != nil:
		return nil, x.status(err)
	case d.Key != string(key):
		return nil, nfs4.ErrBadStateID
	}
	return d, status
}

// delegReturn is DELEGRETURN (RFC 8881, Section 18.6).
func delegReturn(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.StateIDArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if !x.resolve(&a.StateID) {
		return nfs4.ErrBadStateID
	}
	if x.current.node != nil {
		return nfs4.ErrBadStateID
	}
	if status := x.byStateID(&a.StateID); status != nfs4.OK {
		return status
	}
	d, status := x.claimed(&a.StateID)
	if status == nfs4.OK {
		d.File.(*delegated).given()
		if d.Writes() {
			x.rest() // its end may need a permit
		}
		status = x.server.state.ReturnDelegation(x.session, &a.StateID)
	}
	return x.done(status)
}
