package nfs4server

import (
	"context"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
)

// maxCallbackAddr is the maximum length in bytes of the network identifier and of the address
// that are stored for a client's callback.
const maxCallbackAddr = 128

// serveSetClientID implements SETCLIENTID (RFC 7530, Section 16.33).
func serveSetClientID(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.SetClientIDArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	args := nfs4state.SetClientID{
		Transport: x.callTransport(), Principal: x.callPrincipal(), Host: x.unverifiedHost(), Party: x.clientParty(), ID: a.ID, Verifier: a.Verifier, Callback: x.parseCallback(&a),
	}
	if p := x.call.Peer; p != nil {
		args.Addr = p.Addr
	}
	res := nfs4.SetClientIDRes{}
	var using nfs4state.Callback
	res.ClientID, res.Confirm, using, res.Status = x.server.state.SetClientID(&args)
	switch res.Status {
	case nfs4.OK:
	case nfs4.ErrClidInUse:
		res.Using = nfs4.ClientAddr{NetID: []byte(using.NetID), Addr: []byte(using.UAddr)}
	default:
		return res.Status
	}
	x.out = res.AppendTo(x.out)
	return res.Status
}

// parseCallback returns a client's callback. It keeps an address only if it is the client's
// own, over TCP: the server would otherwise call third parties. Over TLS it keeps none, because
// the server's own connection to the client would be unencrypted: it would expose filehandles,
// and others could reply for the client. It keeps none for RPCSEC_GSS clients either (see
// minor0Cred).
func (x *compound) parseCallback(a *nfs4.SetClientIDArgs) nfs4state.Callback {
	c := nfs4state.Callback{Program: a.CBProgram, Ident: a.CBIdent}
	if len(a.Callback.NetID) > maxCallbackAddr || len(a.Callback.Addr) > maxCallbackAddr {
		return c
	}
	c.NetID, c.UAddr = string(a.Callback.NetID), string(a.Callback.Addr)
	addr, err := rpcbind.ParseUaddr(c.UAddr)
	p := x.call.Peer
	if err != nil || p == nil || p.Security != nil || x.call.Cred.Principal != "" || addr.Port() == 0 || c.NetID != "tcp" && c.NetID != "tcp6" {
		return c
	}
	if own := p.Addr.Addr().Unmap().WithZone(""); addr.Addr().Unmap() == own {
		c.Addr = netip.AddrPortFrom(p.Addr.Addr(), addr.Port())
	}
	return c
}

// serveSetClientIDConfirm implements SETCLIENTID_CONFIRM (RFC 7530, Section 16.34).
func serveSetClientIDConfirm(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.SetClientIDConfirmArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	x.leaveClient() // this call does not keep an earlier incarnation alive
	status := x.server.state.ConfirmClientID(x.callTransport(), x.callPrincipal(), x.unverifiedHost(), a.ClientID, a.Confirm)
	if status == nfs4.OK && x.server.exports.Holders() != nil && x.call.Cred.Principal == "" { // see minor0Cred
		x.server.callbacks.probeCallback(a.ClientID)
	}
	return x.appendStatus(status)
}

// serveRenew implements RENEW (RFC 7530, Section 16.28).
func serveRenew(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.ClientIDArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	status := x.actForClientID(a.ClientID)
	if status == nfs4.OK {
		status = x.server.state.Renew(x.session, x.callPrincipal())
	}
	return x.appendStatus(status)
}

// serveDelegPurge implements DELEGPURGE, which is not supported, because no delegation outlives
// its client. In NFSv4.0 its client ID still renews the lease (RFC 7530, Section 9.5).
func serveDelegPurge(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.ClientIDArgs
	a.Decode(x.args)
	if x.args.Err() == nil {
		x.actForClientID(a.ClientID)
	}
	return nfs4.ErrNotSupp
}

// serveOpenConfirm implements OPEN_CONFIRM (RFC 7530, Section 16.18).
func serveOpenConfirm(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.OpenConfirmArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.checkFile(ctx); status != nfs4.OK {
		return status
	}
	key, err := x.objectKey(&x.current)
	if err != nil {
		return x.toStatus(err)
	}
	res := nfs4.StateIDRes{}
	if res.StateID, res.Status = x.server.state.ConfirmOpen(x.session, &a.StateID, key); res.Status != nfs4.OK {
		return res.Status
	}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// requestConfirm makes OPEN's NFSv4.0 results request OPEN_CONFIRM, unless the open-owner is
// known or has reclaimed the file (RFC 7530, Section 9.1.11).
func (x *compound) requestConfirm(a *nfs4.OpenArgs, res *nfs4.OpenRes) {
	switch {
	case !x.turn.Confirm:
	case a.Claim == nfs4.ClaimPrevious:
		x.server.state.ConfirmOwner(&x.turn)
	default:
		res.Flags |= nfs4.OpenConfirm
	}
}

// serveReleaseLockOwner implements RELEASE_LOCKOWNER (RFC 7530, Section 16.37).
func serveReleaseLockOwner(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.ReleaseLockOwnerArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	status := x.actForClientID(a.Owner.ClientID)
	if status == nfs4.OK {
		status = x.server.state.ReleaseLockOwner(x.session, a.Owner.Owner)
	}
	return x.appendStatus(status)
}
