package nfs4server

import (
	"context"
	"slices"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/realm"
)

// judge returns the status of an operation that has put an object into the place
// of the current one, with the result err. If the object's export takes other
// security flavours or transports, the operations that follow decide: some of them judge by
// themselves, and then another object may be meant (RFC 8881, Section
// 2.6.3.1.1).
func (x *compound) judge(err error) nfs4.Status {
	if realm.BySecurity(err) && x.judgedLater() {
		return nfs4.OK
	}
	return x.status(err)
}

// judgedLater reports whether the operations behind the current one judge the
// current object by themselves, or do not use it.
func (x *compound) judgedLater() bool {
	rest := *x.args
	for i := x.i + 1; i < x.n; i++ {
		switch nfs4.Op(rest.Uint32()) {
		case nfs4.OpSaveFH: // the object may become the current one again
		case nfs4.OpPutFH, nfs4.OpPutPubFH, nfs4.OpPutRootFH, nfs4.OpRestoreFH,
			nfs4.OpLookup, nfs4.OpLookupP, nfs4.OpSecInfo, nfs4.OpSecInfoNoName:
			return rest.Err() == nil
		case nfs4.OpOpen:
			var a nfs4.OpenArgs
			a.Decode(&rest)
			return rest.Err() == nil && (a.Claim == nfs4.ClaimNull || a.Claim == nfs4.ClaimDelegateCur || a.Claim == nfs4.ClaimDelegatePrev)
		default:
			return false
		}
	}
	return true
}

// sayable returns the status of an operation: NFS4ERR_WRONGSEC belongs to
// operations that judge an object (RFC 8881, Section 2.6.3.1.1.7).
func (o *operation) sayable(status nfs4.Status) nfs4.Status {
	if status == nfs4.ErrWrongSec && o.flags&judges == 0 {
		return nfs4.ErrAccess
	}
	return status
}

// refusedSource returns the status of an operation on a saved object whose export
// takes other flavours. It cannot be one that makes the client ask again with
// another flavour: the current object has refused that perhaps (RFC 8881, Section
// 2.6.3.1.2).
func (x *compound) refusedSource() nfs4.Status {
	if x.op == nfs4.OpCopy {
		return nfs4.ErrAccess
	}
	return nfs4.ErrXDev
}

// lookupRefused is lookupName in a directory whose export takes other flavours: a
// name leads to another export, or to something that takes the same flavours.
func (x *compound) lookupRefused(ctx context.Context, name []byte) nfs4.Status {
	if status := x.checkName(name); status != nfs4.OK {
		return status
	}
	if err := x.work(ctx, &x.current); err != nil {
		return x.status(err)
	}
	if c := x.junction(ctx, &x.current, string(name)); c != nil {
		return x.status(x.goTo(ctx, c))
	}
	return nfs4.ErrWrongSec
}

// lookupPRefused is LOOKUPP from an object whose export takes other flavours.
func (x *compound) lookupPRefused(ctx context.Context) nfs4.Status {
	o := &x.current
	if o.h != o.use.Export.FS.Root() {
		return nfs4.ErrWrongSec
	}
	if err := x.work(ctx, o); err != nil {
		return x.status(err)
	}
	return x.status(x.above(ctx, o.use.Export))
}

// secInfo is SECINFO (RFC 8881, Section 18.29).
func secInfo(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.NameArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	dir := x.current
	if status := x.lookupName(ctx, a.Name); status != nfs4.OK && status != nfs4.ErrWrongSec {
		return status
	}
	status := x.flavors(ctx)
	if x.minor == nfs4.Minor0 {
		x.current = dir // RFC 7530, Section 16.31.4
	}
	return status
}

// secInfoNoName is SECINFO_NO_NAME (RFC 8881, Section 18.45).
func secInfoNoName(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.SecInfoNoNameArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if a.Style == nfs4.SecInfoParent {
		mark := len(x.out)
		status := lookupP(ctx, x)
		x.out = x.out[:mark]
		if status != nfs4.OK && status != nfs4.ErrWrongSec {
			return status
		}
	}
	return x.flavors(ctx)
}

// flavors appends the flavours of the current object, and consumes it.
func (x *compound) flavors(ctx context.Context) nfs4.Status {
	var list []exports.Flavor
	if o := &x.current; o.node != nil {
		list = x.flavorsBelow(ctx, x.tree(), o.node, nil)
	} else {
		list = o.use.Flavors(ctx)
	}
	if list = x.usable(list); len(list) == 0 {
		list = []exports.Flavor{exports.FlavorSys}
	}
	var res nfs4.SecInfoRes
	for _, f := range list {
		res.Flavors = append(res.Flavors, secInfoOf(f))
	}
	x.out = res.AppendTo(x.out)
	x.current = object{}
	return nfs4.OK
}

// flavorsBelow appends to list the flavours of the exports at n and below that
// the client sees: those of a pseudo node, which itself takes any.
func (x *compound) flavorsBelow(ctx context.Context, t *tree, n *node, list []exports.Flavor) []exports.Flavor {
	if n.export != nil {
		for _, f := range x.server.realm.Flavors(ctx, x.call.Peer, t.set, n.export) {
			if !slices.Contains(list, f) {
				list = append(list, f)
			}
		}
	}
	for _, c := range n.children {
		list = x.flavorsBelow(ctx, t, c, list)
	}
	return list
}

// krb5OID is the object identifier of Kerberos 5, 1.2.840.113554.1.2.2.
var krb5OID = []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02}

// secInfoLen is the length in bytes of the longest results of SECINFO: each
// flavour once.
const secInfoLen = statusLen + 4 + 2*4 + 3*(4+4+12+4+4)

// secInfoOf returns the wire form of a flavour. The services of Kerberos are
// numbered as rpc_gss_svc_none, _integrity and _privacy (RFC 2203, Section 5.1).
func secInfoOf(f exports.Flavor) nfs4.SecInfo {
	if !f.Kerberos() {
		return nfs4.SecInfo{Flavor: uint32(f)}
	}
	return nfs4.SecInfo{Flavor: nfs4.FlavorGSS, OID: krb5OID, Service: 1 + uint32(f) - rpcmsg.AuthKrb5}
}
