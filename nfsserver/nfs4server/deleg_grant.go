package nfs4server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A delegatedFile is the File of a Delegation: an open file for its stateid, and everything to
// release before others may change the object.
type delegatedFile struct {
	*exportset.Open
	server         *Server
	minor          uint32
	holder         recall.Holder
	releaseFSLease func()                // releases the file system's lease, if there is one; may be called again
	delegation     *nfs4state.Delegation // set before holder is confirmed
	recallInReply  bool                  // OPEN's results recall the delegation, so sendRecall sends no callback
	writer         *delegatedWriter      // for a write delegation, otherwise nil

	revokeTimer atomic.Pointer[time.Timer] // after a recall: revokes the delegation
}

// openOf returns the open file from the File of an Open or Delegation.
func openOf(file any) *exportset.Open {
	if f, ok := file.(*delegatedFile); ok {
		return f.Open
	}
	return file.(*exportset.Open)
}

// release releases f at once, or when the client has written back.
func (f *delegatedFile) release() {
	if timer := f.revokeTimer.Load(); timer != nil {
		timer.Stop()
	}
	if f.writer == nil || !f.writer.isReturned() || !f.server.callbacks.startGoroutine(f.releaseAfterWriteBack) {
		f.releaseNow()
	}
}

// releaseNow releases the file system's lease, and then lets changes continue.
func (f *delegatedFile) releaseNow() {
	f.releaseLease()
	if f.writer != nil {
		f.writer.endWriting()
	}
	f.holder.Return()
	f.Close()
}

// releaseLease releases only the file system's lease, because the client itself is about to
// change the object, and would have to wait for the lease (recall.Holder). Until the client has
// returned the delegation, it is not notified of changes by processes on the host.
func (f *delegatedFile) releaseLease() {
	if f.releaseFSLease != nil {
		f.releaseFSLease()
	}
}

// grantDelegation grants a delegation of the current object, which OPEN has just opened, or
// returns the reason why it does not (RFC 8881, Section 10.4). An open for reading gets a read
// delegation, any other open a write delegation.
func (x *compound) grantDelegation(ctx context.Context, a *nfs4.OpenArgs) nfs4.OpenDelegation {
	table, u := x.server.exports.Holders(), x.current.use
	reclaim := a.Claim == nfs4.ClaimPrevious
	write := a.ShareAccess&nfs4.ShareWrite != 0
	if reclaim {
		write = reclaimedDelegation(a) == nfs4.DelegateWrite
	}
	switch want := a.ShareAccess & nfs4.WantDelegMask; {
	case x.minor == nfs4.Minor0 && x.turn.Confirm && !reclaim:
		return nfs4.OpenDelegation{} // the open may be an old retry (RFC 7530, Section 9.1.11)
	case want == nfs4.WantNoDeleg, want == nfs4.WantCancel:
		return noDelegation(a.ShareAccess, 0)
	case reclaim && a.Delegation == nfs4.DelegateNone, claimsDelegation(a):
		return nfs4.OpenDelegation{}
	case table == nil, u.Export.Keys == nil, !x.canGrant(u, write) && (!reclaim || !write),
		write && !reclaim && want == nfs4.WantReadDeleg, !write && a.ShareAccess&nfs4.ShareWrite != 0:
		return noDelegation(a.ShareAccess, nfs4.WhyResource)
	}
	key, err := x.objectKey(&x.current)
	if err != nil {
		return noDelegation(a.ShareAccess, nfs4.WhyResource)
	}
	if !reclaim {
		switch x.server.state.MayDelegate(x.session, string(key), write) {
		case nfs4.OK:
		case nfs4.ErrExist:
			return noDelegation(a.ShareAccess, x.whyNotChanged(a, key))
		case nfs4.ErrDelay:
			x.server.sendRecallAny(x.session)
			return noDelegation(a.ShareAccess, nfs4.WhyResource)
		default:
			return noDelegation(a.ShareAccess, nfs4.WhyContention)
		}
	}
	// Host processes may have changed a reclaimed file in the meantime, or no callback may be
	// possible later: the results then recall the delegation (RFC 8881, Section 18.16.3).
	f := &delegatedFile{server: x.server, minor: x.minor}
	f.recallInReply = reclaim && !(u.Options.Exclusive && x.canGrant(u, write) && len(x.server.state.BackPaths(x.session.ClientID())) > 0)
	f.holder = recall.Holder{Owner: x.session.ClientID(), IgnoreOwner: u.Options.Exclusive, Yield: f.releaseLease, Recall: f.sendRecall}
	args := nfs4state.Delegate{
		Key: string(key), Handle: string(x.fileHandle(&x.current)), Reclaim: reclaim, Write: write, Aside: x,
	}
	if write {
		f.addWriter(x.wantsTimes(a))
		u.EndHolderChange() // the state has the open now
	}
	if x.minor > nfs4.Minor0 {
		args.Referring = nfs4.ReferringCalls{
			Session: x.session.ID, Calls: []nfs4.ReferringCall{{Sequence: x.sequenceID, Slot: x.slot}},
		}
	}
	if !x.becomeHolder(ctx, f) {
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
	granted := nfs4.OpenDelegation{Type: nfs4.DelegateRead, StateID: id, Recall: f.recallInReply}
	if write {
		granted.Type, granted.Limit = nfs4.DelegateWrite, f.writer.limit
		if f.writer.hasTimes {
			granted.Type = nfs4.DelegateWriteAttrs
		}
	}
	if f.recallInReply {
		f.holder.Break()
	}
	return granted
}

// returnOneStateID closes the open that OPEN has just added if OPEN has granted a delegation, whose
// stateid can then represent the open (RFC 9754, Section 4). A reclaim returns both: the client may
// have to reclaim other opens of the file.
func (x *compound) returnOneStateID(a *nfs4.OpenArgs, res *nfs4.OpenRes) {
	d := &res.Delegation
	if a.Claim != nfs4.ClaimPrevious && d.StateID != (nfs4.StateID{}) && x.server.state.ReplaceOpen(x.session, &res.StateID, &d.StateID) {
		res.StateID, res.Flags = nfs4.StateID{}, res.Flags|nfs4.OpenNoOpenStateID
		x.current.stateid = d.StateID
	}
}

// becomeHolder makes f a holder of the current object, with a lease from the file system unless
// all changes go through the server, and opens the object. If it returns false, f holds
// nothing.
func (x *compound) becomeHolder(ctx context.Context, f *delegatedFile) bool {
	u, h := x.current.use, x.current.h
	key, err := u.Key(h)
	if err != nil || !x.server.exports.Holders().Hold(&f.holder, key) {
		return false
	}
	// New exports may not permit the delegation, and the recall for them, or that of Drain, may have come
	// before Hold.
	if !u.IsCurrent() || !f.recallInReply && x.server.isDraining.Load() {
		f.holder.Return()
		return false
	}
	if !u.Options.Exclusive && u.Export.Leaser != nil {
		scope := vfs.LeaseAll
		if f.writer != nil {
			scope = vfs.LeaseWrite
		}
		var release func()
		if release, err = u.Export.Leaser.Lease(ctx, &u.Cred, h, scope, f.holder.Break); err == nil {
			f.releaseFSLease = sync.OnceFunc(release)
		}
		if errors.Is(err, syscall.EMFILE) {
			x.server.sendRecallAny(nil)
		}
		if f.recallInReply && f.writer != nil {
			err = nil // the client must write back in any case
		}
	}
	if err == nil {
		f.Open, err = x.openDelegated(ctx, f.writer != nil)
	}
	if err == nil && f.writer != nil {
		err = f.writer.recordState(ctx, u, h)
		if err != nil {
			f.Close()
		}
	}
	if err != nil {
		f.releaseLease()
		f.holder.Return()
	}
	return err == nil
}

// canGrant reports whether the export's options, its file system and the call's flavor permit
// delegations. While a client has a write delegation, others see the size that it reports in a
// callback, which is neither signed nor encrypted.
func (x *compound) canGrant(u *exportUse, write bool) bool {
	allowed := x.server.readDelegations
	if write {
		f := x.call.Cred.Flavor
		allowed = x.server.writeDelegations && f != rpcmsg.AuthKrb5i && f != rpcmsg.AuthKrb5p
	}
	return allowed && !x.server.isDraining.Load() && (u.Options.Exclusive || u.Export.Leaser != nil)
}

// whyNotChanged returns the reason why a client with a delegation of a file gets no other one:
// delegations are neither upgraded nor downgraded.
func (x *compound) whyNotChanged(a *nfs4.OpenArgs, key []byte) nfs4.WhyNone {
	held := x.server.state.DelegationType(x.session, string(key))
	switch want := a.ShareAccess & nfs4.WantDelegMask; {
	case held == nfs4.DelegateRead && want == nfs4.WantWriteDeleg:
		return nfs4.WhyNotSuppUpgrade
	case held == nfs4.DelegateWrite && want == nfs4.WantReadDeleg:
		return nfs4.WhyNotSuppDowngrade
	}
	return nfs4.WhyContention
}

// Drain stops granting delegations, recalls all of them, and waits for their return, at most as
// long as a change would wait. After the next start, no change has to wait for a client that
// has returned its delegations.
func (s *Server) Drain() {
	s.isDraining.Store(true)
	holders := s.exports.Holders()
	holders.RecallAll()
	end := time.Now().Add(recall.MaxWait)
	for holders.Len() > 0 && time.Now().Before(end) {
		time.Sleep(drainPoll)
	}
}

// drainPoll is the interval at which Drain checks for outstanding delegations.
const drainPoll = 10 * time.Millisecond

// openDelegated opens the current object for a delegation. The caller may be unable to read a
// file that it may write; reads with the delegation then use the handle, with the rights of
// their callers.
func (x *compound) openDelegated(ctx context.Context, write bool) (*exportset.Open, error) {
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

// noDelegation returns the reason why an OPEN gets no delegation, if the client has stated a
// preference.
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

// claimsDelegation reports whether an OPEN relies on a delegation that the client has.
func claimsDelegation(a *nfs4.OpenArgs) bool {
	return a.Claim == nfs4.ClaimDelegateCur || a.Claim == nfs4.ClaimDelegCurFH
}

// claimedDelegation returns the delegation with which the client opens the current object.
func (x *compound) claimedDelegation(id *nfs4.StateID) (*nfs4state.Delegation, nfs4.Status) {
	d, status := x.server.state.DelegationOf(x.session, id)
	if d == nil {
		return nil, status
	}
	key, err := x.objectKey(&x.current)
	switch {
	case err != nil:
		return nil, x.toStatus(err)
	case d.Key != string(key):
		return nil, nfs4.ErrBadStateID
	}
	if status == nfs4.OK {
		x.attributeChanges(&x.current)
	}
	return d, status
}

// serveDelegReturn implements DELEGRETURN (RFC 8881, Section 18.6).
func serveDelegReturn(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.StateIDArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if !x.resolveStateID(&a.StateID) {
		return nfs4.ErrBadStateID
	}
	if x.current.node != nil {
		return nfs4.ErrBadStateID
	}
	if status := x.actForStateID(&a.StateID); status != nfs4.OK {
		return status
	}
	d, status := x.claimedDelegation(&a.StateID)
	if status == nfs4.OK {
		d.File.(*delegatedFile).noteReturn()
		if d.Writes() {
			x.releasePermits() // releasing it may need a permit
		}
		status = x.server.state.ReturnDelegation(x.session, &a.StateID)
	}
	return x.appendStatus(status)
}
