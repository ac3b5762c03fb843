package nfs4server

import (
	"bytes"
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
)

// serveVerify implements VERIFY (RFC 8881, Section 18.31), and serveNVerify NVERIFY (18.15).
func serveVerify(ctx context.Context, x *compound) nfs4.Status {
	same, status := x.matchesAttrs(ctx)
	if status == nfs4.OK && !same {
		status = nfs4.ErrNotSame
	}
	return x.appendStatus(status)
}

func serveNVerify(ctx context.Context, x *compound) nfs4.Status {
	same, status := x.matchesAttrs(ctx)
	if status == nfs4.OK && same {
		status = nfs4.ErrSame
	}
	return x.appendStatus(status)
}

// matchesAttrs compares the attributes in the arguments with the object's.
func (x *compound) matchesAttrs(ctx context.Context) (bool, nfs4.Status) {
	var a nfs4.VerifyArgs
	a.Decode(x.args)
	unknown, unavailable := a.Attrs.Mask.Without(x.supportedAttrs(&x.current)), a.Attrs.Mask.Without(absentAttrs)
	switch {
	case x.args.Err() != nil:
		return false, nfs4.ErrBadXDR
	case x.current.isAbsent() && !unavailable.Empty(): // RFC 8881, Section 11.4.1
		return false, nfs4.ErrMoved
	case a.Attrs.Mask.Has(nfs4.AttrRdattrError), x.anyWriteOnly(a.Attrs.Mask), hasBadMode(&a.Attrs):
		return false, nfs4.ErrInval
	case !unknown.Empty():
		return false, x.unsupportedStatus()
	}
	if status := x.canonicalizeAttrs(ctx, &a.Attrs); status != nfs4.OK {
		return false, status
	}
	have := &x.results.getattr.Attrs
	if status := x.fillAttrs(ctx, &x.current, &a.Attrs.Mask, have); status != nfs4.OK {
		return false, status
	}
	return bytes.Equal(a.Attrs.AppendTo(nil), have.AppendTo(nil)), nfs4.OK
}

// canonicalizeAttrs makes the current object's attributes comparable by their wire form
// (RFC 8881, Section 18.15.4).
func (x *compound) canonicalizeAttrs(ctx context.Context, a *nfs4.Attrs) (status nfs4.Status) {
	if x.current.node != nil {
		return nfs4.OK
	}
	if a.Mask.Has(nfs4.AttrOwner) {
		a.Owner, status = x.canonicalOwner(ctx, idmap.User, a.Owner)
	}
	if a.Mask.Has(nfs4.AttrOwnerGroup) && status == nfs4.OK {
		a.OwnerGroup, status = x.canonicalOwner(ctx, idmap.Group, a.OwnerGroup)
	}
	if a.Mask.Has(nfs4.AttrACL) && status == nfs4.OK {
		status = x.canonicalizeACL(ctx, a.ACL)
	}
	return status
}
