package rpcsec

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A serverCall is the state of a call with an RPCSEC_GSS credential in a Server. It is
// recycled.
type serverCall struct {
	server  *Server
	scratch sliceScratch

	header   rpcmsg.CallHeader
	args     xdr.Reader // positioned after the header
	cred     credential
	context  *serverContext // nil for a creation call
	verifier []byte         // memory for a MIC
	req      oncrpc.Request
	user     rpcmsg.Cred

	growth       int // maximum number of bytes by which the reply grows
	tailOverhead int // the part of growth that follows a data item

	// The transport's reply functions, and their replacements, bound once.
	lendBelow, lendItemFunc func(n int) *buf.Buf
	holdBelow, holdHeadFunc func(n int)
}

// reset prepares c for the next call.
func (c *serverCall) reset() {
	c.scratch.reset()
	*c = serverCall{
		server: c.server, scratch: sliceScratch{parts: c.scratch.parts}, verifier: c.verifier[:0], lendItemFunc: c.lendItemFunc, holdHeadFunc: c.holdHeadFunc,
	}
}

// serveCall serves a call.
func (c *serverCall) serveCall(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	c.args = xdr.NewReader(req.Msg)
	if req.Item != nil {
		c.args.SetItem(req.ItemPos, req.Item)
	} else if req.Places != nil {
		c.args.SetPlaces(req.Places)
	}
	var err error
	if c.header, err = rpcmsg.ReadCall(&c.args); err != nil {
		return c.server.next.Serve(ctx, req, rep) // which finds the same error
	}
	if c.cred, err = readCredential(c.header.Cred.Body); err != nil {
		return c.denyCall(rep, err.(rpcmsg.AuthError))
	}
	if c.cred.proc == procInit || c.cred.proc == procContinueInit {
		return c.createContext(ctx, req, rep)
	}
	c.context = c.server.contexts.acquire(c.cred.handle)
	if c.context == nil {
		c.server.counts.unknown.Add(1)
		return c.denyCall(rep, rpcmsg.AuthCredProblem)
	}
	defer c.server.contexts.release(c.context)
	if fresh, err := c.verifyHeader(req.Msg); err != nil {
		return c.denyCall(rep, err.(rpcmsg.AuthError))
	} else if !fresh {
		c.server.counts.dropped.Add(1)
		return c.server.closeConn(req.Peer, errDropped)
	}
	if c.cred.proc == procDestroy {
		return c.destroyContext(ctx, req, rep)
	}
	return c.executeCall(ctx, req, rep)
}

// verifyHeader checks a call's sequence number and verifier (RFC 2203, Section 5.3.3.1).
// fresh is false if the call must be dropped. Errors have type rpcmsg.AuthError.
func (c *serverCall) verifyHeader(msg []byte) (fresh bool, err error) {
	k, counts := c.context, &c.server.counts
	switch {
	case time.Now().After(k.expires):
		if c.server.contexts.remove(k) {
			counts.expired.Add(1)
		}
		return false, rpcmsg.AuthCtxProblem // Section 5.3.3.3
	case c.cred.seq >= maxSeq:
		return false, rpcmsg.AuthCtxProblem
	case c.header.Verf.Flavor != rpcmsg.AuthGSS:
		return false, rpcmsg.AuthBadVerf
	case !k.received.isFresh(c.cred.seq): // before the verifier, which costs more
		return false, nil
	}
	signed := msg[:6*4+credentialLen(c.cred.handle)]
	if k.VerifyMIC(c.header.Verf.Body, c.scratch.listOf(signed)) != nil {
		counts.badMICs.Add(1)
		return false, rpcmsg.AuthCredProblem
	}
	return k.received.markSeen(c.cred.seq), nil
}

// destroyContext serves a call that destroys its context (RFC 2203, Section 5.4). It has
// no arguments and results to protect.
func (c *serverCall) destroyContext(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	if c.header.Proc != 0 {
		return c.denyCall(rep, rpcmsg.AuthBadCred)
	}
	exists, answer := c.programExists(ctx, req, rep)
	if exists {
		c.appendAccepted(rep, rpcmsg.Success)
	}
	c.cred.service = serviceNone
	answer = answer && c.sealReply(req.Peer, rep)
	if exists && c.server.contexts.remove(c.context) {
		c.server.counts.destroyed.Add(1)
	}
	return answer
}

// executeCall passes a verified call to the next Service, and protects its reply.
func (c *serverCall) executeCall(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	k, counts := c.context, &c.server.counts
	counts.calls[c.cred.service-serviceNone].Add(1)
	behind := c.args.Offset()
	plain, at, err := c.scratch.openBody(k.Context, c.cred.service, c.cred.seq, req.Msg[behind:])
	if c.cred.service != serviceNone && (req.Item != nil || req.Places != nil) {
		err = xdr.ErrItem // RFC 8166, Section 8.2.2.3
	}
	if err != nil { // RFC 2203, Section 5.3.3.4
		counts.badBodies.Add(1)
		c.appendAccepted(rep, rpcmsg.GarbageArgs)
		return c.sealReply(req.Peer, rep)
	}
	user, ok, err := c.server.cfg.Map(ctx, req.Peer.Addr.Addr(), k.principal)
	if err != nil {
		if ctx.Err() != nil { // the connection has closed: the client retransmits the call
			return false
		}
		c.server.log.Error("cannot find a principal's user", "principal", k.name, "err", err)
		ok = false
	}
	c.user = rpcmsg.Cred{
		Flavor: rpcmsg.AuthKrb5 + c.cred.service - serviceNone, Principal: k.name,
		UID: user.UID, GID: user.GID, GIDs: user.GIDs,
	}
	if !ok {
		c.user.UID, c.user.GID, c.user.GIDs, c.user.Anonymous = rpcmsg.Nobody, rpcmsg.Nobody, nil, true
	}
	c.user.Unknown = err != nil
	k.recordUser(&c.user)
	c.makePlain(req, behind+at, len(plain))
	c.prepareReply(rep)
	answer = c.server.next.Serve(ctx, &c.req, rep)
	rep.Lend, rep.Hold = c.lendBelow, c.holdBelow
	return answer && c.sealReply(req.Peer, rep)
}

// makePlain creates the plain call, whose n argument bytes begin at offset at in the
// message. Its header is shorter than the signed one, and overwrites it.
func (c *serverCall) makePlain(req *oncrpc.Request, at, n int) {
	c.req = *req
	gone := at - plainHeader
	c.req.Msg = req.Msg[gone : at+n : at+n]
	c.putHeader(c.req.Msg)
	c.req.ItemPos -= gone
	for i := range c.req.Places {
		c.req.Places[i].Pos -= gone
	}
	c.req.Verified = &c.user
	c.planGrowth()
	c.req.Growth = c.growth
	if c.cred.service != serviceNone {
		c.req.MaxReply, c.req.ItemLimits = req.MaxWhole, nil
	}
	c.req.MaxReply = max(0, c.req.MaxReply-c.growth)
	c.req.MaxWhole = max(0, c.req.MaxWhole-c.growth)
}

// putHeader writes the plain call's header.
func (c *serverCall) putHeader(b []byte) {
	h := &c.header
	for i, v := range [plainHeader / 4]uint32{h.XID, rpcmsg.MsgCall, rpcmsg.Version, h.Prog, h.Vers, h.Proc} {
		binary.BigEndian.PutUint32(b[4*i:], v) // the rest is zero: AUTH_NONE
	}
}

// denyCall creates the reply to a rejected call.
func (c *serverCall) denyCall(rep *oncrpc.Reply, stat rpcmsg.AuthError) (answer bool) {
	rep.Head = rpcmsg.AppendAuthError(rep.Head, c.header.XID, stat)
	return true
}

// appendAccepted creates the reply to a call that is not passed on.
func (c *serverCall) appendAccepted(rep *oncrpc.Reply, stat uint32) (answer bool) {
	rep.Head = rpcmsg.AppendAccepted(rep.Head, c.header.XID, stat)
	return true
}
