package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// lock is LOCK (RFC 8881, Section 18.10). A client that is willing to wait is
// denied like any other, and asks again (Section 9.6), soonest when the server tells
// it that the lock may be free.
func lock(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.LockArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	args := nfs4state.Lock{StateID: x.latest(&a.StateID), New: a.New, Owner: a.Owner.Owner, Exclusive: isExclusive(a.Type), Reclaim: a.Reclaim}
	if status := x.lockArgs(ctx, &args, a.Offset, a.Length); status != nfs4.OK {
		return status
	}
	x.onHost(ctx, &args)
	x.willing(&args, a.Type)
	id, denied, status := x.server.state.Lock(x.session, &args)
	switch status {
	case nfs4.OK:
		return x.locked(&nfs4.LockRes{StateID: id}, id)
	case nfs4.ErrDenied:
		if args.Tell != nil {
			x.server.look()
		}
		return x.denied(&denied)
	}
	return x.lockFailed(ctx, status)
}

// lockT is LOCKT (RFC 8881, Section 18.11).
func lockT(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.LockTArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.byClientID(a.Owner.ClientID); status != nfs4.OK {
		return status
	}
	args := nfs4state.Lock{Owner: a.Owner.Owner, Exclusive: isExclusive(a.Type)}
	if status := x.lockArgs(ctx, &args, a.Offset, a.Length); status != nfs4.OK {
		return status
	}
	attr, status := x.attr(ctx, &x.current) // no stateid shows that it is a file
	if status == nfs4.OK {
		status = regular(&attr)
	}
	if status != nfs4.OK {
		return status
	}
	if err := x.current.use.BeforeRead(ctx, x.current.h); err != nil { // the locks may be the client's secret
		return x.status(err)
	}
	x.onHost(ctx, &args)
	denied, status := x.server.state.TestLock(x.session, &args)
	if status == nfs4.ErrDenied {
		return x.denied(&denied)
	}
	return x.done(status)
}

// lockU is LOCKU (RFC 8881, Section 18.12).
func lockU(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.LockUArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	args := nfs4state.Lock{StateID: x.latest(&a.StateID)}
	if status := x.lockArgs(ctx, &args, a.Offset, a.Length); status != nfs4.OK {
		return status
	}
	id, status := x.server.state.Unlock(x.session, &args)
	if status != nfs4.OK {
		return x.lockFailed(ctx, status)
	}
	return x.locked(&nfs4.StateIDRes{StateID: id}, id)
}

func isExclusive(t nfs4.LockType) bool { return t == nfs4.LockWrite || t == nfs4.LockWriteWait }

// lockArgs sets the object and the range of a lock of the current file.
func (x *compound) lockArgs(ctx context.Context, args *nfs4state.Lock, offset, length uint64) nfs4.Status {
	if status := x.file(ctx); status != nfs4.OK {
		return status
	}
	var status nfs4.Status
	if args.Range, status = lockRange(offset, length); status != nfs4.OK {
		return status
	}
	key, err := x.key(&x.current)
	args.Key = string(key)
	return x.status(err)
}

// lockRange returns the range of a lock (RFC 8881, Section 18.10.3). A length
// of all ones means to the end.
func lockRange(offset, length uint64) (locks.Range, nfs4.Status) {
	switch {
	case length == 0, length != locks.ToEnd && length > locks.ToEnd-offset:
		return locks.Range{}, nfs4.ErrInval
	case length == locks.ToEnd:
		return locks.Range{Start: offset, End: locks.ToEnd}, nfs4.OK
	}
	return locks.Range{Start: offset, End: offset + length - 1}, nfs4.OK
}

// latest returns the stateid of an operation's arguments. The current stateid
// stands for that with the latest seqid (RFC 8881, Section 8.2.3). Without one,
// it is a special stateid.
func (x *compound) latest(id *nfs4.StateID) nfs4.StateID {
	if *id != nfs4.CurrentStateID {
		return *id
	}
	return nfs4.StateID{Other: x.current.stateid.Other}
}

// locked appends the results of an operation that has returned a stateid.
func (x *compound) locked(res nfs4.Message, id nfs4.StateID) nfs4.Status {
	x.current.stateid, x.current.stated = id, true
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// lockFailed returns the status of LOCK or LOCKU. No stateid is that of an
// object that is no regular file: the type of the object says more.
func (x *compound) lockFailed(ctx context.Context, status nfs4.Status) nfs4.Status {
	if status != nfs4.ErrBadStateID {
		return status
	}
	if attr, s := x.attr(ctx, &x.current); s == nfs4.OK {
		if s = regular(&attr); s != nfs4.OK {
			return s
		}
	}
	return status
}

// deniedLen is the length in bytes of the results of a lock that is denied,
// without the owner of the other lock.
const deniedLen = statusLen + 8 + 8 + 4 + 8 + 4

// denied appends a LOCK4denied. Nothing has been changed, so results without
// room are no harm.
func (x *compound) denied(d *nfs4state.Denied) nfs4.Status {
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
	if x.left() < deniedLen+len(d.Owner)+xdr.Pad(len(d.Owner)) {
		return x.tooBig()
	}
	x.out = res.AppendTo(x.out)
	return nfs4.ErrDenied
}
