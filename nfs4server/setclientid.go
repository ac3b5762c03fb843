package nfs4server

import (
	"context"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/rpcbind"
)

// maxCallback is the length in bytes of the longest network identifier and address
// that are remembered of a client's callback.
const maxCallback = 128

// setClientID is SETCLIENTID (RFC 7530, Section 16.33).
func setClientID(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.SetClientIDArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	args := nfs4state.SetClientID{
		Transport: x.transport(), Principal: x.principal(), Host: x.host(), Party: x.party(), ID: a.ID, Verifier: a.Verifier, Callback: x.callback(&a),
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

// callback returns a client's words about its callbacks. An address counts only if
// it is the client's own, by TCP: the server would otherwise call others for it. Inside
// of TLS none counts, because the server's own connection to the client would be in
// clear: it would show filehandles, and others could answer for the client. That of a
// client of RPCSEC_GSS does not count either (see plainCred).
func (x *compound) callback(a *nfs4.SetClientIDArgs) nfs4state.Callback {
	c := nfs4state.Callback{Program: a.CBProgram, Ident: a.CBIdent}
	if len(a.Callback.NetID) > maxCallback || len(a.Callback.Addr) > maxCallback {
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

// setClientIDConfirm is SETCLIENTID_CONFIRM (RFC 7530, Section 16.34).
func setClientIDConfirm(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.SetClientIDConfirmArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	x.leave() // this call does not keep an earlier incarnation alive
	status := x.server.state.ConfirmClientID(x.transport(), x.principal(), x.host(), a.ClientID, a.Confirm)
	if status == nfs4.OK && x.server.realm.Holders() != nil && x.call.Cred.Principal == "" { // see plainCred
		x.server.callbacks.tryCallback(a.ClientID)
	}
	return x.done(status)
}

// renew is RENEW (RFC 7530, Section 16.28).
func renew(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.ClientIDArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	status := x.byClientID(a.ClientID)
	if status == nfs4.OK {
		status = x.server.state.Renew(x.session, x.principal())
	}
	return x.done(status)
}

// delegPurge is DELEGPURGE, which is not supported, because no delegation outlives its
// client. By version 4.0 its client ID renews the lease all the same (RFC 7530,
// Section 9.5).
func delegPurge(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.ClientIDArgs
	a.Decode(x.args)
	if x.args.Err() == nil {
		x.byClientID(a.ClientID)
	}
	return nfs4.ErrNotSupp
}

// openConfirm is OPEN_CONFIRM (RFC 7530, Section 16.18).
func openConfirm(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.OpenConfirmArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.file(ctx); status != nfs4.OK {
		return status
	}
	key, err := x.key(&x.current)
	if err != nil {
		return x.status(err)
	}
	res := nfs4.StateIDRes{}
	if res.StateID, res.Status = x.server.state.ConfirmOpen(x.session, &a.StateID, key); res.Status != nfs4.OK {
		return res.Status
	}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// confirms makes the results of OPEN in version 4.0 ask for OPEN_CONFIRM, unless the
// open-owner is known or has reclaimed the file (RFC 7530, Section 9.1.11).
func (x *compound) confirms(a *nfs4.OpenArgs, res *nfs4.OpenRes) {
	switch {
	case !x.turn.Confirm:
	case a.Claim == nfs4.ClaimPrevious:
		x.server.state.ConfirmOwner(&x.turn)
	default:
		res.Flags |= nfs4.OpenConfirm
	}
}

// releaseLockOwner is RELEASE_LOCKOWNER (RFC 7530, Section 16.37).
func releaseLockOwner(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.ReleaseLockOwnerArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	status := x.byClientID(a.Owner.ClientID)
	if status == nfs4.OK {
		status = x.server.state.ReleaseLockOwner(x.session, a.Owner.Owner)
	}
	return x.done(status)
}
