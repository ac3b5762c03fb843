package rpcsec

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A call is a call with a credential of RPCSEC_GSS on its way through a Server.
// Calls are recycled.
type call struct {
	server *Server
	bench  bench

	header   rpcmsg.CallHeader
	args     xdr.Reader // positioned behind the header
	cred     credential
	context  *established // nil for a creation call
	verifier []byte       // memory for a MIC
	req      oncrpc.Request
	who      rpcmsg.Cred

	growth   int // by how many bytes the reply gets longer, at most
	tailRoom int // bytes of it behind a data item

	// The transport's functions of the reply, and those in their place, made once.
	lendBelow, lend func(n int) *buf.Buf
	holdBelow, hold func(n int)
}

// reset makes c ready for the next call.
func (c *call) reset() {
	c.bench.clear()
	*c = call{
		server: c.server, bench: bench{parts: c.bench.parts}, verifier: c.verifier[:0], lend: c.lend, hold: c.hold,
	}
}

// serve answers a call.
func (c *call) serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	c.args = xdr.NewReader(req.Msg)
	if req.Item != nil {
		c.args.SetItem(req.ItemPos, req.Item)
	} else if req.Places != nil {
		c.args.SetPlaces(req.Places)
	}
	var err error
	if c.header, err = rpcmsg.ReadCall(&c.args); err != nil {
		return c.server.next.Serve(ctx, req, rep) // which finds the same fault
	}
	if c.cred, err = readCredential(c.header.Cred.Body); err != nil {
		return c.deny(rep, err.(rpcmsg.AuthError))
	}
	if c.cred.proc == procInit || c.cred.proc == procContinueInit {
		return c.create(ctx, req, rep)
	}
	c.context = c.server.contexts.take(c.cred.handle)
	if c.context == nil {
		c.server.counts.unknown.Add(1)
		return c.deny(rep, rpcmsg.AuthCredProblem)
	}
	defer c.server.contexts.give(c.context)
	if fresh, err := c.verify(req.Msg); err != nil {
		return c.deny(rep, err.(rpcmsg.AuthError))
	} else if !fresh {
		c.server.counts.dropped.Add(1)
		return c.server.cut(req.Peer, errDropped)
	}
	if c.cred.proc == procDestroy {
		return c.destroy(ctx, req, rep)
	}
	return c.execute(ctx, req, rep)
}

// verify checks the sequence number and the verifier of a call (RFC 2203, Section
// 5.3.3.1). fresh is false if the call must be dropped. Errors are of type
// rpcmsg.AuthError.
func (c *call) verify(msg []byte) (fresh bool, err error) {
	k, counts := c.context, &c.server.counts
	switch {
	case time.Now().After(k.end):
		if c.server.contexts.remove(k) {
			counts.expired.Add(1)
		}
		return false, rpcmsg.AuthCtxProblem // Section 5.3.3.3
	case c.cred.seq >= maxSeq:
		return false, rpcmsg.AuthCtxProblem
	case c.header.Verf.Flavor != rpcmsg.AuthGSS:
		return false, rpcmsg.AuthBadVerf
	case !k.seqs.fresh(c.cred.seq): // before the verifier, which costs more
		return false, nil
	}
	signed := msg[:6*4+credentialLen(c.cred.handle)]
	if k.VerifyMIC(c.header.Verf.Body, c.bench.of(signed)) != nil {
		counts.badMICs.Add(1)
		return false, rpcmsg.AuthCredProblem
	}
	return k.seqs.take(c.cred.seq), nil
}

// destroy answers a call that ends its context (RFC 2203, Section 5.4). Its
// arguments and results are not protected: they have none.
func (c *call) destroy(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	if c.header.Proc != 0 {
		return c.deny(rep, rpcmsg.AuthBadCred)
	}
	exists, answer := c.exists(ctx, req, rep)
	if exists {
		c.accept(rep, rpcmsg.Success)
	}
	c.cred.service = serviceNone
	answer = answer && c.seal(req.Peer, rep)
	if exists && c.server.contexts.remove(c.context) {
		c.server.counts.destroyed.Add(1)
	}
	return answer
}

// execute hands a verified call up, and protects its reply.
func (c *call) execute(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	k, counts := c.context, &c.server.counts
	counts.calls[c.cred.service-serviceNone].Add(1)
	behind := c.args.Offset()
	plain, at, err := c.bench.open(k.Context, c.cred.service, c.cred.seq, req.Msg[behind:])
	if c.cred.service != serviceNone && (req.Item != nil || req.Places != nil) {
		err = xdr.ErrItem // RFC 8166, Section 8.2.2.3
	}
	if err != nil { // RFC 2203, Section 5.3.3.4
		counts.badBodies.Add(1)
		c.accept(rep, rpcmsg.GarbageArgs)
		return c.seal(req.Peer, rep)
	}
	user, ok, err := c.server.cfg.Map(ctx, req.Peer.Addr.Addr(), k.principal)
	if err != nil {
		if ctx.Err() != nil { // the connection has ended: the client sends the call again
			return false
		}
		c.server.log.Error("the user of a principal cannot be found", "principal", k.name, "err", err)
		ok = false
	}
	c.who = rpcmsg.Cred{
		Flavor: rpcmsg.AuthKrb5 + c.cred.service - serviceNone, Principal: k.name,
		UID: user.UID, GID: user.GID, GIDs: user.GIDs,
	}
	if !ok {
		c.who.UID, c.who.GID, c.who.GIDs, c.who.Anonymous = rpcmsg.Nobody, rpcmsg.Nobody, nil, true
	}
	c.who.Unknown = err != nil
	k.note(&c.who)
	c.makePlain(req, behind+at, len(plain))
	c.takeReply(rep)
	answer = c.server.next.Serve(ctx, &c.req, rep)
	rep.Lend, rep.Hold = c.lendBelow, c.holdBelow
	return answer && c.seal(req.Peer, rep)
}

// makePlain makes the plain call, whose n bytes of arguments begin at an offset of
// the message. Its header is shorter than the signed one, and takes its room.
func (c *call) makePlain(req *oncrpc.Request, at, n int) {
	c.req = *req
	gone := at - plainHeader
	c.req.Msg = req.Msg[gone : at+n : at+n]
	c.putHeader(c.req.Msg)
	c.req.ItemPos -= gone
	for i := range c.req.Places {
		c.req.Places[i].Pos -= gone
	}
	c.req.Verified = &c.who
	c.plan()
	c.req.Growth = c.growth
	if c.cred.service != serviceNone {
		c.req.MaxReply, c.req.ItemRooms = req.MaxWhole, nil
	}
	c.req.MaxReply = max(0, c.req.MaxReply-c.growth)
	c.req.MaxWhole = max(0, c.req.MaxWhole-c.growth)
}

// putHeader writes the header of the plain call.
func (c *call) putHeader(b []byte) {
	h := &c.header
	for i, v := range [plainHeader / 4]uint32{h.XID, rpcmsg.MsgCall, rpcmsg.Version, h.Prog, h.Vers, h.Proc} {
		binary.BigEndian.PutUint32(b[4*i:], v) // the rest is zero: AUTH_NONE
	}
}

// deny makes the reply to a call that is refused.
func (c *call) deny(rep *oncrpc.Reply, stat rpcmsg.AuthError) (answer bool) {
	rep.Head = rpcmsg.AppendAuthError(rep.Head, c.header.XID, stat)
	return true
}

// accept makes the reply to a call that is not handed up.
func (c *call) accept(rep *oncrpc.Reply, stat uint32) (answer bool) {
	rep.Head = rpcmsg.AppendAccepted(rep.Head, c.header.XID, stat)
	return true
}
