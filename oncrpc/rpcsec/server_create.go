package rpcsec

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// createContext serves a creation call (RFC 2203, Section 5.2). It never replies
// CREDPROBLEM or CTXPROBLEM (Section 5.2.3.2).
func (c *serverCall) createContext(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	switch {
	case c.header.Proc != 0 || c.cred.proc == procInit && len(c.cred.handle) > 0:
		return c.denyCall(rep, rpcmsg.AuthBadCred)
	case c.header.Verf.Flavor != rpcmsg.AuthNone:
		return c.denyCall(rep, rpcmsg.AuthBadVerf)
	}
	token := c.args.Opaque(maxToken)
	if c.args.Done() != nil {
		return c.appendAccepted(rep, rpcmsg.GarbageArgs)
	}
	if exists, answer := c.programExists(ctx, req, rep); !exists {
		return answer
	}
	res, k, err := c.establishContext(ctx, req.Peer, token)
	if err != nil { // the connection has closed
		return false
	}
	return c.appendCreated(req, rep, &res, k)
}

// programExists reports whether the next Service has the call's program and version, by
// calling their procedure 0. If not, rep is the reply.
func (c *serverCall) programExists(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (exists, answer bool) {
	var null [plainHeader]byte
	c.req = oncrpc.Request{Msg: null[:], Peer: req.Peer, MaxReply: req.MaxWhole, MaxWhole: req.MaxWhole}
	c.putHeader(c.req.Msg)
	answer = c.server.next.Serve(ctx, &c.req, rep)
	exists = answer && len(rep.Head) == rpcmsg.AcceptedLen && isSuccess(rep.Head)
	if exists {
		rep.Head = rep.Head[:0]
	}
	return exists, answer
}

// bindingsOf returns a TLS connection's channel bindings, or nil (RFC 9289, Section
// 4.2.1; RFC 5056, Section 2.1).
func bindingsOf(s *oncrpc.Security) []byte {
	if s == nil || len(s.Binding) == 0 {
		return nil
	}
	return append([]byte("tls-exporter:"), s.Binding...)
}

// establishContext establishes a context from an initiator's token. Without a context,
// the result has the reason. An error means that the caller no longer waits for the
// result.
func (c *serverCall) establishContext(ctx context.Context, peer *oncrpc.Peer, token []byte) (initResult, *serverContext, error) {
	s := c.server
	if c.cred.proc == procContinueInit { // an Acceptor needs only one token
		s.counts.countRejected(0)
		return initResult{major: gss.NoContext}, nil, nil
	}
	by := fairshare.PartyOfIP(peer.Addr.Addr())
	if err := s.accepts.Acquire(ctx, by); err != nil {
		return initResult{}, nil, err
	}
	// The runtime runs a goroutine that was just woken before all others. Goroutines that
	// wake one another would keep a processor busy with tokens for a long time.
	runtime.Gosched()
	since := time.Now()
	made, err := s.cfg.Acceptor.Accept(ctx, token, bindingsOf(peer.Security))
	s.counts.accepting.Add(int64(time.Since(since)))
	s.accepts.Give(by)
	if err != nil {
		return c.rejectedResult(peer, err), nil, nil
	}
	k := &serverContext{
		Context: made.Context, principal: made.Principal, name: principalName(made.Principal),
		expires: made.Context.Expires().Add(skew),
	}
	if len(k.name) > maxName {
		return c.rejectedResult(peer, errName), nil, nil
	}
	res := initResult{major: gss.Complete, window: window, token: made.Token}
	if c.verifier, err = k.AppendMIC(c.verifier[:0], c.scratch.wordList(window)); err != nil {
		return c.rejectedResult(peer, err), nil, nil
	}
	if !s.contexts.add(k, by) {
		return c.rejectedResult(peer, errFull), nil, nil
	}
	res.handle = k.handle[:]
	s.counts.made.Add(1)
	return res, k, nil
}

var (
	errFull = errors.New("rpcsec: all contexts are in use")
	errName = errors.New("rpcsec: the principal's name is too long")
)

// rejectedResult returns a result without a context: handle and token are empty (RFC
// 2203, Section 5.2.3.1).
func (c *serverCall) rejectedResult(peer *oncrpc.Peer, err error) initResult {
	res := initResult{major: gss.Failure}
	var e *gss.Error
	if errors.As(err, &e) && e.Major != gss.Complete && e.Major != gss.ContinueNeeded {
		res.major, res.minor = e.Major, e.Minor
	}
	c.server.counts.countRejected(res.minor)
	c.server.log.Warn("security context rejected", "peer", peer, "err", err)
	return res
}

// appendCreated appends the reply to a creation call. k is nil without a context.
func (c *serverCall) appendCreated(req *oncrpc.Request, rep *oncrpc.Reply, res *initResult, k *serverContext) (answer bool) {
	n := rpcmsg.AcceptedLen + res.encodedLen()
	if k != nil {
		n += len(c.verifier) + xdr.Pad(len(c.verifier))
	}
	if n > req.MaxWhole {
		if k != nil {
			c.server.contexts.remove(k)
		}
		return c.appendAccepted(rep, rpcmsg.SystemErr)
	}
	b := rpcmsg.AppendReply(rep.Head, c.header.XID, rpcmsg.MsgAccepted)
	if k != nil {
		b = xdr.AppendUint32(b, rpcmsg.AuthGSS)
		b = xdr.AppendOpaque(b, c.verifier)
	} else {
		b = xdr.AppendUint32(b, rpcmsg.AuthNone)
		b = xdr.AppendUint32(b, 0)
	}
	rep.Head = res.appendTo(xdr.AppendUint32(b, rpcmsg.Success))
	return true
}
