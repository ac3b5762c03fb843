package nfs4server

import (
	"context"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// With an attribute delegation the client is also the authority for a file's access and modification
// times (RFC 9754, Section 5): others see the times that it reports in CB_GETATTR, and it sets them in
// the file before it returns the delegation. Only write delegations have attributes. With a read
// delegation a client would report its access time alone, which no system call stores without
// advancing time_metadata, and each GETATTR by others would query all clients that read the file.

// grantsTimes reports whether clients can get attribute delegations.
func (x *compound) grantsTimes() bool { return x.minor >= nfs4.Minor2 && x.server.writeDelegations }

// wantsTimes reports whether an OPEN requests an attribute delegation, or reclaims one.
func (x *compound) wantsTimes(a *nfs4.OpenArgs) bool {
	if a.Claim == nfs4.ClaimPrevious {
		return x.grantsTimes() && a.Delegation == nfs4.DelegateWriteAttrs
	}
	return x.grantsTimes() && a.ShareAccess&nfs4.WantDelegTimestamps != 0
}

// boundTimes returns the times among attrs that the client may have set, and zero for others. A time
// not after the one that the file had when the client got the delegation is ignored, and a time in the
// future is replaced by the present, which is the same for both. So the client can set no time that it
// could not have caused by reading and writing.
func (w *delegatedWriter) boundTimes(attrs *nfs4.Attrs) (atime, mtime vfs.Time) {
	t := time.Now()
	now := vfs.Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
	bound := func(id nfs4.AttrID, t nfs4.Time, base vfs.Time) vfs.Time {
		v := vfs.Time(t)
		if now.Before(v) {
			v = now
		}
		if !attrs.Mask.Has(id) || t.Nsec >= 1e9 || !base.Before(v) {
			return vfs.Time{}
		}
		return v
	}
	return bound(nfs4.AttrTimeDelegAccess, attrs.TimeDelegAccess, w.baseAtime),
		bound(nfs4.AttrTimeDelegModify, attrs.TimeDelegModify, w.baseMtime)
}

// setDelegatedTimes implements SETATTR of delegated times. Its stateid must be that of the client's
// attribute delegation of the object, and the caller must have got it, or be permitted to write.
func (x *compound) setDelegatedTimes(ctx context.Context, a *nfs4.SetAttrArgs) nfs4.Status {
	o, attrs := &x.current, &a.Attrs
	unsupported, others := attrs.Mask.Without(x.supportedAttrs(o)), attrs.Mask.Without(delegatedTimes)
	switch {
	case !unsupported.Empty():
		return nfs4.ErrAttrNotSupp
	case !others.Empty(), attrs.TimeDelegAccess.Nsec >= 1e9, attrs.TimeDelegModify.Nsec >= 1e9:
		return nfs4.ErrInval
	case o.node != nil, !x.resolveStateID(&a.StateID):
		return nfs4.ErrBadStateID
	}
	if status := x.checkWritable(o); status != nfs4.OK { // the delegation may be older than this option
		return status
	}
	if err := x.acquirePermit(ctx, o); err != nil {
		return x.toStatus(err)
	}
	d, status := x.claimedDelegation(&a.StateID)
	if status != nfs4.OK {
		return status
	}
	w := d.File.(*delegatedFile).writer
	if w == nil || !w.hasTimes {
		return nfs4.ErrBadStateID
	}
	if f := o.use.FileOf(openOf(d.File), vfs.OpenWrite); f != nil {
		defer f.Done()
	} else if status := x.checkOpenRights(ctx, o, nfs4.ShareWrite); status != nfs4.OK {
		return status
	}
	res := nfs4.SetAttrRes{}
	atime, mtime := w.boundTimes(attrs)
	// An access time must not advance time_metadata (RFC 9754, Section 5), but setting it does. So it
	// is set only with a modification time.
	if mtime != (vfs.Time{}) {
		if status := x.storeTimes(ctx, atime, mtime); status != nfs4.OK {
			return status
		}
		res.AttrsSet.Set(nfs4.AttrTimeDelegModify)
		if atime != (vfs.Time{}) {
			res.AttrsSet.Set(nfs4.AttrTimeDelegAccess)
		}
	}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// storeTimes sets the current object's times, also if the caller is not its owner. atime may be zero.
func (x *compound) storeTimes(ctx context.Context, atime, mtime vfs.Time) nfs4.Status {
	u, h := x.current.use, x.current.h
	if err := u.BeforeOpenWrite(ctx, h); err != nil {
		return x.toStatus(err)
	}
	set := vfs.SetAttr{MtimeHow: vfs.SetToClient, Mtime: mtime}
	if atime != (vfs.Time{}) {
		set.AtimeHow, set.Atime = vfs.SetToClient, atime
	}
	_, err := u.Export.FS.SetAttr(ctx, &vfs.Cred{}, h, set, nil)
	return x.toStatus(err)
}
