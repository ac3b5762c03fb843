package nfs4server

import (
	"context"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// transport returns which of the two servers the call came to.
func (x *compound) transport() nfs4state.Transport {
	if p := x.call.Peer; p != nil && p.Network == "rdma" {
		return nfs4state.RDMA
	}
	return nfs4state.TCP
}

// party returns the party of the client's address.
func (x *compound) party() fairshare.Name {
	if p := x.call.Peer; p != nil {
		return fairshare.PartyOfIP(p.Addr.Addr())
	}
	return fairshare.Name{}
}

// exchangeID is EXCHANGE_ID (RFC 8881, Section 18.35).
func exchangeID(_ context.Context, x *compound) nfs4.Status {
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
	case a.Protect.How == nfs4.ProtectMachCred && !x.sealed():
		return nfs4.ErrInval // Section 18.35.3
	case a.Protect.How == nfs4.ProtectSSV:
		return nfs4.ErrEncrAlgUnsupp
	}
	id, sequence, confirmed, status := x.server.state.ExchangeID(&nfs4state.Exchange{
		Transport: x.transport(), Principal: x.principal(), Host: x.host(), Sealed: x.sealed(), Protect: granted(&a.Protect),
		Party: x.party(), Owner: a.Owner, Verifier: a.Verifier,
		Update: a.Flags&nfs4.ExchangeUpdConfirmed != 0, Impl: string(a.Impl.Name[:min(len(a.Impl.Name), maxImpl)]),
		Minor: x.minor,
	})
	if status != nfs4.OK {
		return status
	}
	// Both transports are servers of one scope, whose state is apart.
	major := append(x.server.id[:len(x.server.id):len(x.server.id)], byte(x.transport()))
	res := nfs4.ExchangeIDRes{
		ClientID: id, SequenceID: sequence, Flags: nfs4.ExchangeUseNonPNFS | nfs4.ExchangeSuppMovedRefer, MajorID: major, Scope: x.server.id[:],
		Protect: x.server.state.Protection(id),
	}
	if confirmed {
		res.Flags |= nfs4.ExchangeConfirmed
	}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// sealed reports whether a security mechanism protects the call's arguments against
// changes.
func (x *compound) sealed() bool {
	f := x.call.Cred.Flavor
	return f == rpcmsg.AuthKrb5i || f == rpcmsg.AuthKrb5p
}

var (
	// enforceable are the operations that a server must keep to the machine
	// credential of a client that asks for it (RFC 8881, Section 18.35.3).
	enforceable = nfs4.BitmapOf(nfs4.OpExchangeID, nfs4.OpCreateSession, nfs4.OpDelegPurge, nfs4.OpDestroySession,
		nfs4.OpBindConnToSession, nfs4.OpDestroyClientID)

	// optional are those of these that are kept to it only if the client asks. The
	// others are what the credential is for, and are kept to it in any case (Sections
	// 2.10.8.3, 18.34.3 and 18.37.3).
	optional = nfs4.BitmapOf(nfs4.OpExchangeID, nfs4.OpDelegPurge)

	// allowable are the operations that a machine credential may call for any user.
	// Those with a filehandle are not among them, because the flavours of its export
	// decide.
	allowable = nfs4.BitmapOf(nfs4.OpTestStateID, nfs4.OpFreeStateID)
)

// granted returns the protection of its state that a client gets.
func granted(p *nfs4.StateProtect) nfs4.StateProtect {
	if p.How != nfs4.ProtectMachCred {
		return nfs4.StateProtect{}
	}
	return nfs4.StateProtect{
		How: p.How, MustEnforce: enforceable.Without(optional.Without(p.MustEnforce)), MustAllow: p.MustAllow.And(allowable),
	}
}

// refused reports whether an operation is kept to the machine credential of a client,
// and the call has another.
func (x *compound) refused(id uint64, op nfs4.Op) bool {
	return x.server.state.Refuses(id, op, x.principal(), x.sealed())
}

// maxImpl is the longest name of an implementation that is remembered.
const maxImpl = 128

// createSession is CREATE_SESSION (RFC 8881, Section 18.36).
func createSession(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.CreateSessionArgs
	a.Decode(x.args)
	const known = nfs4.SessionPersist | nfs4.SessionConnBackChan | nfs4.SessionConnRDMA
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case a.Flags&^known != 0:
		return nfs4.ErrInval
	case x.refused(a.ClientID, nfs4.OpCreateSession):
		return nfs4.ErrWrongCred
	}
	c := nfs4state.Create{
		Principal: x.principal(), Host: x.host(), ClientID: a.ClientID, Sequence: a.Sequence, Fore: x.grant(&a.Fore), Back: a.Back,
		CBProgram: a.CBProgram, Conn: x.call.Peer, Own: x.session,
	}
	var found bool
	c.Contexts, found = x.backContexts(&a.SecParms)
	c.SecParms = a.SecParms
	if p := x.call.Peer; p != nil {
		c.Protected = p.Security != nil
		if x.server.callable(p) {
			c.Flags = a.Flags & nfs4.SessionConnBackChan
		}
	}
	c.Back.HeaderPadSize = 0
	switch {
	case c.Fore.MaxOperations < 2, c.Fore.MaxRequests == 0, c.Fore.MaxRequestSize < minRequest, int(c.Fore.MaxResponseSize) < minResponse+x.call.Growth,
		a.Flags&nfs4.SessionConnBackChan != 0 && !canCall(&a.Back, c.Contexts):
		c.Refused = nfs4.ErrTooSmall
	case !found:
		c.Refused = nfs4.ErrNoEnt
	}
	res := x.server.state.CreateSession(&c)
	if res.Status != nfs4.OK {
		return res.Status
	}
	if s := x.server.state.Session(res.Session); s != nil {
		x.follow(ctx, s)
	}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// canCall reports whether a backchannel with these limits can carry a callback, by any
// of the contexts. A client that asks for no backchannel may leave the limits at 0.
func canCall(a *nfs4.ChannelAttrs, contexts []nfs4state.BackContext) bool {
	request, response := minCallback, minCallbackRes
	for _, c := range contexts {
		call, reply := c.(BackContext).Room()
		request, response = max(request, minCallback-callHeader+call), max(response, minCallbackRes+reply)
	}
	return a.MaxOperations >= minCallbackOps && a.MaxRequests > 0 && int(a.MaxRequestSize) >= request && int(a.MaxResponseSize) >= response
}

// backContexts takes the handles of RPCSEC_GSS out of a list, and returns the contexts
// with these handles. found is false if one of them does not exist.
func (x *compound) backContexts(p *nfs4.SecParms) (contexts []nfs4state.BackContext, found bool) {
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

// grant returns the limits of a fore channel for the limits that a client asks
// for. Sizes are never raised (RFC 8881, Section 18.36.3).
func (x *compound) grant(a *nfs4.ChannelAttrs) nfs4.ChannelAttrs {
	longest := uint32(x.server.realm.Payload() + messageRoom)
	return nfs4.ChannelAttrs{
		MaxRequestSize:        min(a.MaxRequestSize, longest),
		MaxResponseSize:       min(a.MaxResponseSize, longest),
		MaxResponseSizeCached: min(a.MaxResponseSizeCached, maxCached),
		MaxOperations:         min(a.MaxOperations, maxOps),
		MaxRequests:           min(a.MaxRequests, x.server.slots),
	}
}

// bindConnToSession is BIND_CONN_TO_SESSION (RFC 8881, Section 18.34).
func bindConnToSession(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.BindConnArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	s := x.server.state.Session(a.Session)
	switch {
	case s == nil:
		return nfs4.ErrBadSession
	case s.Refuses(nfs4.OpBindConnToSession, x.principal(), x.sealed()):
		return nfs4.ErrWrongCred
	}
	if p := x.call.Peer; !x.server.callable(p) || !canCall(&s.Back, s.Contexts()) || s.Protected && p.Security == nil { // this connection cannot carry callbacks
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
	x.follow(ctx, s)
	res := nfs4.BindConnRes{Session: a.Session, Dir: bound}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// backchannelCtl is BACKCHANNEL_CTL (RFC 8881, Section 18.33).
func backchannelCtl(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.BackchannelCtlArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	contexts, found := x.backContexts(&a.SecParms)
	if !found {
		return nfs4.ErrNoEnt
	}
	x.session.SetCallback(a.CBProgram, a.SecParms, contexts)
	return x.done(nfs4.OK)
}

// destroySession is DESTROY_SESSION (RFC 8881, Section 18.37). A connection
// that is not bound may do it too: a client that has lost its connections
// could not clean up otherwise.
func destroySession(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.SessionArgs
	a.Decode(x.args)
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case x.session != nil && a.Session == x.session.ID && x.i+1 < x.n:
		return nfs4.ErrNotOnlyOp // it must be the last
	}
	if s := x.server.state.Session(a.Session); s != nil && s.Refuses(nfs4.OpDestroySession, x.principal(), x.sealed()) {
		return nfs4.ErrWrongCred
	}
	return x.done(x.server.state.DestroySession(a.Session, x.session))
}

// destroyClientID is DESTROY_CLIENTID (RFC 8881, Section 18.50).
func destroyClientID(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.ClientIDArgs
	a.Decode(x.args)
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case x.refused(a.ClientID, nfs4.OpDestroyClientID), x.server.state.Strange(a.ClientID, x.machine()):
		return nfs4.ErrWrongCred
	}
	return x.done(x.server.state.DestroyClientID(a.ClientID))
}

// reclaimComplete is RECLAIM_COMPLETE (RFC 8881, Section 18.51). For one file
// system it means nothing, since none moves between servers.
func reclaimComplete(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.ReclaimCompleteArgs
	a.Decode(x.args)
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case a.OneFS && !x.current.set():
		return nfs4.ErrNoFileHandle
	case a.OneFS:
		return x.done(nfs4.OK)
	}
	return x.done(x.server.state.ReclaimComplete(x.session))
}

// setSSV is SET_SSV (RFC 8881, Section 18.47), which needs state protection
// that no client gets.
func setSSV(context.Context, *compound) nfs4.Status { return nfs4.ErrInval }

// testStateID is TEST_STATEID (RFC 8881, Section 18.48).
func testStateID(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.TestStateIDArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.fit(minResult + 4*int(a.N)); status != nfs4.OK {
		return status
	}
	switch long := 4*int(a.N) > shortList; {
	case long && x.split:
		return x.tooBig() // see shortList
	case long:
		x.reserve(4 * int(a.N))
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

// freeStateID is FREE_STATEID (RFC 8881, Section 18.38).
func freeStateID(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.StateIDArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if !x.resolve(&a.StateID) {
		return nfs4.ErrBadStateID
	}
	return x.done(x.server.state.FreeStateID(x.session, &a.StateID))
}

// resolve replaces the special current stateid by the stateid that it stands for
// (RFC 8881, Section 16.2.3.1.2). It returns false if there is none.
func (x *compound) resolve(id *nfs4.StateID) bool {
	switch {
	case *id != nfs4.CurrentStateID:
		return true
	case x.current.stated:
		*id = x.current.stateid
	}
	return x.current.stated
}

// sweepsPerLease says how late Sweep may be: a process of the host waits no longer
// than that for the locks of a client whose time is up.
const sweepsPerLease = 4

// Sweep drops the records that clients have left behind, and ends grace, until
// ctx ends.
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
			if grace && s.state.Grace().Clients == 0 {
				grace = false
				s.log.Info("grace is over: clients of version 4 have reclaimed their open files and locks, or have lost them")
			}
		}
	}
}
