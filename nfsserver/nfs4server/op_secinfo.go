package nfs4server

import (
	"context"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// deferWrongSec returns the status of an operation that has replaced the current object, with
// the result err. If the object's export requires other security flavors or transports, the
// following operations decide: some of them check an object themselves, which may be another
// one (RFC 8881, Section 2.6.3.1.1).
func (x *compound) deferWrongSec(err error) nfs4.Status {
	if exportset.IsSecurityDenial(err) && x.isCheckedLater() {
		return nfs4.OK
	}
	return x.toStatus(err)
}

// isCheckedLater reports whether the following operations check the current object themselves,
// or do not use it.
func (x *compound) isCheckedLater() bool {
	rest := *x.args
	for i := x.opIndex + 1; i < x.opCount; i++ {
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

// permittedStatus converts the operation's status: only operations that check an object may
// return NFS4ERR_WRONGSEC (RFC 8881, Section 2.6.3.1.1.7).
func (o *operation) permittedStatus(status nfs4.Status) nfs4.Status {
	if status == nfs4.ErrWrongSec && o.flags&checksSecurity == 0 {
		return nfs4.ErrAccess
	}
	return status
}

// wrongSecSourceStatus returns the status of an operation on a saved object whose export
// requires other flavors. It must not make the client try another flavor: the current object
// may reject that (RFC 8881, Section 2.6.3.1.2).
func (x *compound) wrongSecSourceStatus() nfs4.Status {
	if x.op == nfs4.OpCopy {
		return nfs4.ErrAccess
	}
	return nfs4.ErrXDev
}

// lookupWrongSec looks up a name in a directory whose export requires other flavors: the name
// leads to another export, or to an object that requires the same flavors.
func (x *compound) lookupWrongSec(ctx context.Context, name []byte) nfs4.Status {
	if status := x.checkName(name); status != nfs4.OK {
		return status
	}
	if err := x.acquirePermit(ctx, &x.current); err != nil {
		return x.toStatus(err)
	}
	if c := x.findJunction(ctx, &x.current, string(name)); c != nil {
		return x.toStatus(x.goToNode(ctx, c))
	}
	return nfs4.ErrWrongSec
}

// lookupParentWrongSec executes LOOKUPP from an object whose export requires other flavors.
func (x *compound) lookupParentWrongSec(ctx context.Context) nfs4.Status {
	o := &x.current
	if o.h != o.use.Export.FS.Root() {
		return nfs4.ErrWrongSec
	}
	if err := x.acquirePermit(ctx, o); err != nil {
		return x.toStatus(err)
	}
	return x.toStatus(x.goToParent(ctx, o.use.Export))
}

// serveSecInfo implements SECINFO (RFC 8881, Section 18.29).
func serveSecInfo(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.NameArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	dir := x.current
	if status := x.lookupName(ctx, a.Name); status != nfs4.OK && status != nfs4.ErrWrongSec {
		return secInfoStatus(status)
	}
	status := x.appendFlavors(ctx)
	if x.minor == nfs4.Minor0 {
		x.current = dir // RFC 7530, Section 16.31.4
	}
	return status
}

// serveSecInfoNoName implements SECINFO_NO_NAME (RFC 8881, Section 18.45).
func serveSecInfoNoName(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.SecInfoNoNameArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if a.Style == nfs4.SecInfoParent {
		mark := len(x.out)
		status := serveLookupP(ctx, x)
		x.out = x.out[:mark]
		if status != nfs4.OK && status != nfs4.ErrWrongSec {
			return secInfoStatus(status)
		}
	}
	return x.appendFlavors(ctx)
}

// secInfoStatus converts the status of LOOKUP or LOOKUPP for SECINFO and SECINFO_NO_NAME: they
// have no NFS4ERR_SYMLINK (RFC 7530, Section 13.2; RFC 8881, Section 15.2).
func secInfoStatus(lookup nfs4.Status) nfs4.Status {
	if lookup == nfs4.ErrSymlink {
		return nfs4.ErrNotDir
	}
	return lookup
}

// appendFlavors appends the current object's flavors, and consumes the object.
func (x *compound) appendFlavors(ctx context.Context) nfs4.Status {
	var list []exports.Flavor
	if o := &x.current; o.node != nil {
		list = x.collectFlavors(ctx, x.currentTree(), o.node, nil)
	} else {
		list = o.use.Flavors(ctx)
	}
	if list = x.usableFlavors(list); len(list) == 0 {
		list = []exports.Flavor{exports.FlavorSys}
	}
	var res nfs4.SecInfoRes
	for _, f := range list {
		res.Flavors = append(res.Flavors, toSecInfo(f))
	}
	x.out = res.AppendTo(x.out)
	x.current = object{}
	return nfs4.OK
}

// collectFlavors appends to list the flavors of the exports at n and below that the client
// sees: these are the flavors of a pseudo node, which itself accepts any.
func (x *compound) collectFlavors(ctx context.Context, t *tree, n *node, list []exports.Flavor) []exports.Flavor {
	if n.export != nil {
		for _, f := range x.server.exports.Flavors(ctx, x.call.Peer, t.set, n.export) {
			if !slices.Contains(list, f) {
				list = append(list, f)
			}
		}
	}
	for _, c := range n.children {
		list = x.collectFlavors(ctx, t, c, list)
	}
	return list
}

// krb5OID is the object identifier for Kerberos 5, 1.2.840.113554.1.2.2.
var krb5OID = []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02}

// secInfoLen is the maximum length in bytes of SECINFO's results: each flavor once.
const secInfoLen = statusLen + 4 + 2*4 + 3*(4+4+12+4+4)

// toSecInfo returns a flavor's wire form. The Kerberos services are numbered as
// rpc_gss_svc_none, _integrity and _privacy (RFC 2203, Section 5.1).
func toSecInfo(f exports.Flavor) nfs4.SecInfo {
	if !f.Kerberos() {
		return nfs4.SecInfo{Flavor: uint32(f)}
	}
	return nfs4.SecInfo{Flavor: nfs4.FlavorGSS, OID: krb5OID, Service: 1 + uint32(f) - rpcmsg.AuthKrb5}
}
