package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// serveLock implements LOCK (RFC 8881, Section 18.10). A client that is willing to wait is
// denied like any other, and must try again (Section 9.6): the sooner if the server notifies
// it that the lock may be free.
func serveLock(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.LockArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	args := nfs4state.Lock{
		StateID: x.latestStateID(&a.StateID), New: a.New, ByDelegation: x.minor >= nfs4.Minor2,
		Owner: a.Owner.Owner, Exclusive: isExclusive(a.Type), Reclaim: a.Reclaim, Aside: x,
	}
	if status := x.setLockArgs(ctx, &args, a.Offset, a.Length); status != nfs4.OK {
		return status
	}
	x.useHostLocks(ctx, &args)
	x.notifyWhenFree(&args, a.Type)
	id, denied, status := x.server.state.Lock(x.session, &args)
	switch status {
	case nfs4.OK:
		return x.appendLockResult(&nfs4.LockRes{StateID: id}, id)
	case nfs4.ErrDenied:
		return x.appendDenied(&denied)
	}
	return x.lockErrorStatus(ctx, status)
}

// serveLockT implements LOCKT (RFC 8881, Section 18.11).
func serveLockT(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.LockTArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.actForClientID(a.Owner.ClientID); status != nfs4.OK {
		return status
	}
	args := nfs4state.Lock{Owner: a.Owner.Owner, Exclusive: isExclusive(a.Type)}
	if status := x.setLockArgs(ctx, &args, a.Offset, a.Length); status != nfs4.OK {
		return status
	}
	attr, status := x.getAttr(ctx, &x.current) // no stateid shows that it is a file
	if status == nfs4.OK {
		status = checkRegular(&attr)
	}
	if status != nfs4.OK {
		return status
	}
	if err := x.current.use.BeforeRead(ctx, x.current.h); err != nil { // the locks may be secret
		return x.toStatus(err)
	}
	x.useHostLocks(ctx, &args)
	denied, status := x.server.state.TestLock(x.session, &args)
	switch status {
	case nfs4.ErrDenied:
		return x.appendDenied(&denied)
	case nfs4.ErrServerFault: // of the host, and no status of LOCKT: no client's lock conflicts
		status = nfs4.OK
	}
	return x.appendStatus(status)
}

// serveLockU implements LOCKU (RFC 8881, Section 18.12).
func serveLockU(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.LockUArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	args := nfs4state.Lock{StateID: x.latestStateID(&a.StateID)}
	if status := x.setLockArgs(ctx, &args, a.Offset, a.Length); status != nfs4.OK {
		return status
	}
	id, status := x.server.state.Unlock(x.session, &args)
	if status != nfs4.OK {
		return x.lockErrorStatus(ctx, status)
	}
	return x.appendLockResult(&nfs4.StateIDRes{StateID: id}, id)
}

func isExclusive(t nfs4.LockType) bool { return t == nfs4.LockWrite || t == nfs4.LockWriteWait }

// setLockArgs sets a lock's object and range in the current file.
func (x *compound) setLockArgs(ctx context.Context, args *nfs4state.Lock, offset, length uint64) nfs4.Status {
	if status := x.checkFile(ctx); status != nfs4.OK {
		return status
	}
	var status nfs4.Status
	if args.Range, status = toLockRange(offset, length); status != nfs4.OK {
		return status
	}
	key, err := x.objectKey(&x.current)
	args.Key = string(key)
	return x.toStatus(err)
}

// toLockRange converts a lock's range (RFC 8881, Section 18.10.3). A length with all bits set
// means to the end.
func toLockRange(offset, length uint64) (locks.Range, nfs4.Status) {
	switch {
	case length == 0, length != locks.ToEnd && length > locks.ToEnd-offset:
		return locks.Range{}, nfs4.ErrInval
	case length == locks.ToEnd:
		return locks.Range{Start: offset, End: locks.ToEnd}, nfs4.OK
	}
	return locks.Range{Start: offset, End: offset + length - 1}, nfs4.OK
}

// latestStateID returns the stateid in an operation's arguments. The current stateid represents
// the one with the latest seqid (RFC 8881, Section 8.2.3). If there is none, the result is a
// special stateid.
func (x *compound) latestStateID(id *nfs4.StateID) nfs4.StateID {
	if *id != nfs4.CurrentStateID {
		return *id
	}
	return nfs4.StateID{Other: x.current.stateid.Other}
}

// appendLockResult appends the results of an operation that returns a stateid.
func (x *compound) appendLockResult(res nfs4.Message, id nfs4.StateID) nfs4.Status {
	x.attributeChanges(&x.current)
	x.current.stateid, x.current.hasStateID = id, true
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// lockErrorStatus returns the status of a failed LOCK or LOCKU. If the object is not a regular
// file, it has no stateid: the status for the object's type says more.
func (x *compound) lockErrorStatus(ctx context.Context, status nfs4.Status) nfs4.Status {
	if status != nfs4.ErrBadStateID {
		return status
	}
	if attr, s := x.getAttr(ctx, &x.current); s == nfs4.OK {
		if s = checkRegular(&attr); s != nfs4.OK {
			return s
		}
	}
	return status
}

// deniedLen is the length in bytes of the results of a denied lock, without the other lock's
// owner.
const deniedLen = statusLen + 8 + 8 + 4 + 8 + 4

// appendDenied appends a LOCK4denied. Nothing has changed, so it may fail for lack of space.
func (x *compound) appendDenied(d *nfs4state.Denied) nfs4.Status {
	res := nfs4.LockTRes{Status: nfs4.ErrDenied, Denied: nfs4.LockDenied{
		Offset: d.Range.Start, Length: locks.ToEnd, Type: nfs4.LockRead,
		Owner: nfs4.StateOwner{ClientID: d.ClientID, Owner: []byte(d.Owner)},
	}}
	if d.Range.End != locks.ToEnd {
		res.Denied.Length = d.Range.End - d.Range.Start + 1
	}
	if d.Exclusive {
		res.Denied.Type = nfs4.LockWrite
	}
	if x.bytesLeft() < deniedLen+len(d.Owner)+xdr.Pad(len(d.Owner)) {
		return x.tooBigStatus()
	}
	x.out = res.AppendTo(x.out)
	return nfs4.ErrDenied
}
