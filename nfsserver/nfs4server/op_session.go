package nfs4server

import (
	"context"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// callTransport returns the transport over which the call came.
func (x *compound) callTransport() nfs4state.Transport {
	if p := x.call.Peer; p != nil && p.Network == "rdma" {
		return nfs4state.RDMA
	}
	return nfs4state.TCP
}

// clientParty returns the fair-share group for the client's address.
func (x *compound) clientParty() fairshare.Name {
	if p := x.call.Peer; p != nil {
		return fairshare.PartyOfIP(p.Addr.Addr())
	}
	return fairshare.Name{}
}

// newCaller returns the caller of an operation that manages a client.
func (x *compound) newCaller() *nfs4state.Caller {
	return &nfs4state.Caller{Principal: x.callPrincipal(), Host: x.unverifiedHost(), Party: x.clientParty()}
}

// serveExchangeID implements EXCHANGE_ID (RFC 8881, Section 18.35).
func serveExchangeID(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.ExchangeIDArgs
	a.Decode(x.args)
	allowed := nfs4.ExchangeArgMask
	if x.minor < nfs4.Minor2 {
		allowed &^= nfs4.ExchangeSuppFenceOps
	}
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case a.Flags&^allowed != 0, a.Protect.Void:
		return nfs4.ErrInval
	case a.Protect.How == nfs4.ProtectMachCred && !x.hasIntegrity():
		return nfs4.ErrInval // Section 18.35.3
	case a.Protect.How == nfs4.ProtectSSV:
		return nfs4.ErrEncrAlgUnsupp
	}
	id, sequence, confirmed, status := x.server.state.ExchangeID(&nfs4state.Exchange{
		Transport: x.callTransport(), Principal: x.callPrincipal(), Host: x.unverifiedHost(), Sealed: x.hasIntegrity(), Protect: grantProtection(&a.Protect),
		Party: x.clientParty(), Owner: a.Owner, Verifier: a.Verifier,
		Update: a.Flags&nfs4.ExchangeUpdConfirmed != 0, Impl: string(a.Impl.Name[:min(len(a.Impl.Name), maxImplName)]),
		Minor: x.minor, Own: x.session,
	})
	if status != nfs4.OK {
		return status
	}
	// Both transports have the same scope, but their state is separate.
	major := append(x.server.id[:len(x.server.id):len(x.server.id)], byte(x.callTransport()))
	res := nfs4.ExchangeIDRes{
		ClientID: id, SequenceID: sequence, Flags: nfs4.ExchangeUseNonPNFS | nfs4.ExchangeSuppMovedRefer, MajorID: major, Scope: x.server.id[:],
		Protect: x.server.state.Protection(id),
	}
	if confirmed {
		res.Flags |= nfs4.ExchangeConfirmed
	}
	// RFC 7862, Section 14.1.4, wants this flag also if it was not requested, but older Linux
	// clients then do not mount.
	res.Flags |= a.Flags & nfs4.ExchangeSuppFenceOps
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// hasIntegrity reports whether a security mechanism protects the call's arguments against
// changes.
func (x *compound) hasIntegrity() bool {
	f := x.call.Cred.Flavor
	return f == rpcmsg.AuthKrb5i || f == rpcmsg.AuthKrb5p
}

var (
	// enforceableOps are the operations that a server must restrict to the machine credential
	// if a client requests that (RFC 8881, Section 18.35.3).
	enforceableOps = nfs4.BitmapOf(nfs4.OpExchangeID, nfs4.OpCreateSession, nfs4.OpDelegPurge, nfs4.OpDestroySession,
		nfs4.OpBindConnToSession, nfs4.OpDestroyClientID)

	// optionalOps are the operations among these that are restricted only if the client
	// requests that. The others are always restricted, because the credential exists for them
	// (Sections 2.10.8.3, 18.34.3 and 18.37.3).
	optionalOps = nfs4.BitmapOf(nfs4.OpExchangeID, nfs4.OpDelegPurge)

	// allowableOps are the operations that a machine credential may execute for any user.
	// Operations with a filehandle are excluded, because the flavors of its export decide.
	allowableOps = nfs4.BitmapOf(nfs4.OpTestStateID, nfs4.OpFreeStateID)
)

// grantProtection returns the state protection that a client gets.
func grantProtection(p *nfs4.StateProtect) nfs4.StateProtect {
	if p.How != nfs4.ProtectMachCred {
		return nfs4.StateProtect{}
	}
	return nfs4.StateProtect{
		How: p.How, MustEnforce: enforceableOps.Without(optionalOps.Without(p.MustEnforce)), MustAllow: p.MustAllow.And(allowableOps),
	}
}

// isRefused reports whether an operation is restricted to a client's machine credential, and
// the call has another credential.
func (x *compound) isRefused(id uint64, op nfs4.Op) bool {
	return x.server.state.RejectsCaller(id, op, x.callPrincipal(), x.hasIntegrity())
}

// maxImplName is the maximum length of an implementation name that is stored.
const maxImplName = 128

// serveCreateSession implements CREATE_SESSION (RFC 8881, Section 18.36).
func serveCreateSession(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.CreateSessionArgs
	a.Decode(x.args)
	const known = nfs4.SessionPersist | nfs4.SessionConnBackChan | nfs4.SessionConnRDMA
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case a.Flags&^known != 0:
		return nfs4.ErrInval
	case x.isRefused(a.ClientID, nfs4.OpCreateSession):
		return nfs4.ErrWrongCred
	}
	c := nfs4state.Create{
		Principal: x.callPrincipal(), Host: x.unverifiedHost(), Party: x.clientParty(), ClientID: a.ClientID, Sequence: a.Sequence, Fore: x.grantChannel(&a.Fore), Back: a.Back,
		CBProgram: a.CBProgram, Conn: x.call.Peer, Own: x.session,
	}
	var found bool
	c.Contexts, found = x.findBackContexts(&a.SecParms)
	c.SecParms = a.SecParms
	if p := x.call.Peer; p != nil {
		c.Protected = p.Security != nil
		if x.server.canCallBack(p) {
			c.Flags = a.Flags & nfs4.SessionConnBackChan
		}
	}
	c.Back.HeaderPadSize = 0
	switch {
	case c.Fore.MaxOperations < 2, c.Fore.MaxRequests == 0, c.Fore.MaxRequestSize < minRequest, int(c.Fore.MaxResponseSize) < minResponse+x.call.Growth,
		(a.Flags&nfs4.SessionConnBackChan != 0 || a.Back.MaxRequestSize != 0 || a.Back.MaxRequests != 0) && !canCarryCallback(&a.Back, c.Contexts):
		c.Refused = nfs4.ErrTooSmall
	case !found:
		c.Refused = nfs4.ErrNoEnt
	}
	res := x.server.state.CreateSession(&c)
	if res.Status != nfs4.OK {
		return res.Status
	}
	if s := x.server.state.Session(res.Session); s != nil {
		x.unbindOnClose(ctx, s)
	}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// canCarryCallback reports whether a backchannel with these limits can carry a callback, in any
// of the contexts. A client that requests no backchannel may leave the limits at 0; with
// sufficient limits it may bind a connection to the backchannel later.
func canCarryCallback(a *nfs4.ChannelAttrs, contexts []nfs4state.BackContext) bool {
	request, response := minCallback, minCallbackRes
	for _, c := range contexts {
		call, reply := c.(BackContext).Overhead()
		request, response = max(request, minCallback-callHeaderLen+call), max(response, minCallbackRes+reply)
	}
	return a.MaxOperations >= minCallbackOps && a.MaxRequests > 0 && int(a.MaxRequestSize) >= request && int(a.MaxResponseSize) >= response
}

// findBackContexts removes the RPCSEC_GSS handles from a list, and returns the contexts with
// these handles. found is false if one of them does not exist.
func (x *compound) findBackContexts(p *nfs4.SecParms) (contexts []nfs4state.BackContext, found bool) {
	for _, h := range p.Handles {
		c := x.server.back(x.call.Cred.Principal, h)
		if c == nil {
			return nil, false
		}
		contexts = append(contexts, c)
	}
	p.Handles = nil
	return contexts, true
}

// grantChannel returns a fore channel's limits for the limits that a client requests. Sizes are
// never raised (RFC 8881, Section 18.36.3).
func (x *compound) grantChannel(a *nfs4.ChannelAttrs) nfs4.ChannelAttrs {
	longest := uint32(x.server.exports.Payload() + messageOverhead)
	return nfs4.ChannelAttrs{
		MaxRequestSize:        min(a.MaxRequestSize, longest),
		MaxResponseSize:       min(a.MaxResponseSize, longest),
		MaxResponseSizeCached: min(a.MaxResponseSizeCached, nfs4state.MaxCachedReply),
		MaxOperations:         min(a.MaxOperations, maxOps),
		MaxRequests:           min(a.MaxRequests, x.server.slots),
	}
}

// serveBindConnToSession implements BIND_CONN_TO_SESSION (RFC 8881, Section 18.34).
func serveBindConnToSession(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.BindConnArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	s := x.server.state.Session(a.Session)
	switch {
	case s == nil:
		return nfs4.ErrBadSession
	case s.RejectsCaller(nfs4.OpBindConnToSession, x.callPrincipal(), x.hasIntegrity()), !s.Admits(x.callPrincipal()):
		return nfs4.ErrWrongCred
	}
	if p := x.call.Peer; !x.server.canCallBack(p) || !canCarryCallback(&s.Back, s.Contexts()) || s.Protected && p.Security == nil { // this connection cannot carry callbacks
		switch a.Dir {
		case nfs4.BindBack, nfs4.BindBackOrBoth:
			return nfs4.ErrInval
		case nfs4.BindForeOrBoth:
			a.Dir = nfs4.BindFore
		}
	}
	bound, status := s.Bind(x.call.Peer, a.Dir)
	if status != nfs4.OK {
		return status
	}
	x.unbindOnClose(ctx, s)
	res := nfs4.BindConnRes{Session: a.Session, Dir: bound}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// serveBackchannelCtl implements BACKCHANNEL_CTL (RFC 8881, Section 18.33).
func serveBackchannelCtl(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.BackchannelCtlArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if !x.session.Admits(x.callPrincipal()) {
		return nfs4.ErrInval // the standard has no better status
	}
	contexts, found := x.findBackContexts(&a.SecParms)
	if !found {
		return nfs4.ErrNoEnt
	}
	x.session.SetCallback(a.CBProgram, a.SecParms, contexts)
	return x.appendStatus(nfs4.OK)
}

// serveDestroySession implements DESTROY_SESSION (RFC 8881, Section 18.37). The client may also
// use a connection that is not bound: a client that has lost its connections could not clean up
// otherwise.
func serveDestroySession(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.SessionArgs
	a.Decode(x.args)
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case x.session != nil && a.Session == x.session.ID && x.opIndex+1 < x.opCount:
		return nfs4.ErrNotOnlyOp // it must be the last
	}
	switch s := x.server.state.Session(a.Session); {
	case s == nil: // see below
	case s.RejectsCaller(nfs4.OpDestroySession, x.callPrincipal(), x.hasIntegrity()):
		return nfs4.ErrWrongCred
	case !s.Manages(x.newCaller(), x.call.Peer):
		return nfs4.ErrConnNotBoundToSession
	}
	return x.appendStatus(x.server.state.DestroySession(a.Session, x.session))
}

// serveDestroyClientID implements DESTROY_CLIENTID (RFC 8881, Section 18.50).
func serveDestroyClientID(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.ClientIDArgs
	a.Decode(x.args)
	by := x.newCaller()
	by.Host = x.callerHost()
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case x.isRefused(a.ClientID, nfs4.OpDestroyClientID), !x.server.state.MayManage(a.ClientID, by):
		return nfs4.ErrWrongCred
	}
	return x.appendStatus(x.server.state.DestroyClientID(a.ClientID))
}

// serveReclaimComplete implements RECLAIM_COMPLETE (RFC 8881, Section 18.51). For one file
// system it has no effect, because none moves between servers.
func serveReclaimComplete(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.ReclaimCompleteArgs
	a.Decode(x.args)
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case a.OneFS && !x.current.isSet():
		return nfs4.ErrNoFileHandle
	case a.OneFS:
		return x.appendStatus(nfs4.OK)
	}
	return x.appendStatus(x.server.state.ReclaimComplete(x.session))
}

// serveSetSSV implements SET_SSV (RFC 8881, Section 18.47), which requires state protection
// that no client gets.
func serveSetSSV(context.Context, *compound) nfs4.Status { return nfs4.ErrInval }

// serveTestStateID implements TEST_STATEID (RFC 8881, Section 18.48).
func serveTestStateID(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.TestStateIDArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.checkResultLen(minResultLen + 4*int(a.N)); status != nfs4.OK {
		return status
	}
	switch long := 4*int(a.N) > maxUnreserved; {
	case long && x.afterItem:
		return x.tooBigStatus() // see maxUnreserved
	case long:
		x.reserveMemory(4 * int(a.N))
	}
	res := nfs4.TestStateIDRes{N: a.N}
	x.out = res.AppendTo(x.out)
	for range a.N {
		var id nfs4.StateID
		id.Decode(x.args)
		x.out = xdr.AppendUint32(x.out, uint32(x.server.state.TestStateID(x.session, &id)))
	}
	return nfs4.OK
}

// serveFreeStateID implements FREE_STATEID (RFC 8881, Section 18.38).
func serveFreeStateID(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.StateIDArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if !x.resolveStateID(&a.StateID) {
		return nfs4.ErrBadStateID
	}
	return x.appendStatus(x.server.state.FreeStateID(x.session, &a.StateID))
}

// resolveStateID replaces the special current stateid by the stateid that it represents (RFC
// 8881, Section 16.2.3.1.2). It returns false if there is none.
func (x *compound) resolveStateID(id *nfs4.StateID) bool {
	switch {
	case *id != nfs4.CurrentStateID:
		return true
	case x.current.hasStateID:
		*id = x.current.stateid
	}
	return x.current.hasStateID
}

// sweepsPerLease limits how late Sweep may be: a host process waits at most a lease divided by
// this number for the locks of a client whose lease has expired.
const sweepsPerLease = 4

// Sweep removes the records that clients have left behind, takes back slots that sessions do not
// use, and ends the grace period, until ctx ends.
func (s *Server) Sweep(ctx context.Context) {
	tick := time.NewTicker(s.lease / sweepsPerLease)
	defer tick.Stop()
	grace := s.state.Grace().Clients > 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.state.Sweep()
			s.recallSlots()
			if grace && s.state.Grace().Clients == 0 {
				grace = false
				s.log.Info("grace period over: NFSv4 clients have reclaimed their open files and locks, or have lost them")
			}
		}
	}
}
