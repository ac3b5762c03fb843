package rpcrdma

import (
	"context"
	"errors"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/workpool"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// A reverseServer serves reverse calls at a requester (RFC 8167, Section 5.2).
//
// As in the forward direction, a call consumes a receive, which is posted again
// just before its reply is posted. A responder that respects its grant can have
// at most as many calls in flight as were granted, plus as many replies whose
// Send has not completed here yet.
type reverseServer struct {
	c       *ClientConn
	service oncrpc.Service
	peer    oncrpc.Peer

	ctx    context.Context // for the calls
	cancel context.CancelCauseFunc
	pool   workpool.Pool

	mu       sync.Mutex
	inFlight int
}

var errReverseOverrun = errors.New("rpcrdma: the server sends more reverse calls than were granted")

// startReverse prepares for calls from the responder, if the configuration has
// a Backchannel. It must be called before any receive is posted, because a
// reverse call may consume any receive.
func (c *ClientConn) startReverse() {
	if c.cfg.Backchannel == nil {
		return
	}
	s := &reverseServer{c: c, service: c.cfg.Backchannel}
	s.peer = oncrpc.Peer{Addr: addrPort(c.conn.RemoteAddr()), Network: "rdma", Security: securityOf(c.conn)}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	c.mu.Lock()
	c.reverse = s
	over := c.err
	c.mu.Unlock()
	if over != nil {
		s.cancelCalls(over)
	}
}

// allowReverse allows the responder to send calls. It must be called before
// this end's first call, from which the responder could learn that it may (RFC
// 8167, Section 6).
func (c *ClientConn) allowReverse() {
	if c.reverse != nil {
		_ = c.conn.PostRecv(c.cfg.BackchannelCredits) // an error means that the connection is closing
	}
}

// receiveReverse receives a reverse call, whose header is c.hdr, on the
// connection's reader; err is the header's error. A requester without a
// Backchannel drops the call.
func (c *ClientConn) receiveReverse(body []byte, err error, msg *buf.Buf) {
	s := c.reverse
	switch {
	case s == nil:
		msg.Release()
		_ = c.conn.PostRecv(1) // an error means that the connection is closing
	case !s.beginCall():
		msg.Release()
		c.conn.Abort(errReverseOverrun)
	default:
		rc := &reverseCall{s: s, recv: msg, hdr: wire.Header{XID: c.hdr.XID, Vers: wire.Version, Credit: uint32(c.cfg.BackchannelCredits)}}
		rc.req.Msg, rc.isValid = body, err == nil && c.hdr.Lists.Len() == wire.MinLen-wire.FixedLen
		s.pool.Go(rc)
	}
}

// beginCall counts a call, if another is allowed.
func (s *reverseServer) beginCall() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight == 2*s.c.cfg.BackchannelCredits {
		return false
	}
	s.inFlight++
	return true
}

func (s *reverseServer) endCall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
}

// cancelCalls cancels the calls' contexts when the connection has ended.
func (s *reverseServer) cancelCalls(cause error) {
	if s != nil {
		s.cancel(cause)
	}
}

// waitForCalls waits for the running calls, after the connection has ended.
func (s *reverseServer) waitForCalls() {
	if s != nil {
		s.pool.Close()
	}
}

// A reverseCall is one call to a reverseServer.
type reverseCall struct {
	s        *reverseServer
	recv     *buf.Buf    // req.Msg aliases it
	isValid  bool        // header and body agree, and there are no chunks
	hdr      wire.Header // the reply's header
	req      oncrpc.Request
	rep      oncrpc.Reply
	replyBuf *buf.Buf  // the reply's header and head
	iov      [4][]byte // memory for the reply's parts
}

// Run serves the call (workpool.Task).
func (rc *reverseCall) Run() {
	c := rc.s.c
	rc.replyBuf = buf.Default.Get(c.sendSize)
	answer := rc.makeReply()
	rc.recv.Release()
	_ = c.conn.PostRecv(1) // an error means that the connection is closing
	if !answer || c.conn.Post(rc.replySend()) != nil {
		rc.releaseMemory()
	}
}

// makeReply makes the reply, or an RDMA_ERROR if the call has chunks (RFC 8167,
// Section 5.3) or a bad header, or the reply does not fit (RFC 8166, Sections
// 4.5.2 and 4.5.3). It returns false if there is no reply.
func (rc *reverseCall) makeReply() bool {
	s, req, rep := rc.s, &rc.req, &rc.rep
	rc.hdr.Proc, rc.hdr.Code = wire.Error, wire.ErrChunk
	if !rc.isValid {
		return true
	}
	rep.Head = rc.replyBuf.B[wire.MinLen:wire.MinLen]
	req.Peer, req.MaxReply = &s.peer, len(rc.replyBuf.B)-wire.MinLen
	req.MaxWhole = req.MaxReply
	if !s.service.Serve(s.ctx, req, rep) {
		return false
	}
	if rep.Len() <= req.MaxReply {
		rc.hdr.Proc = wire.Msg
	}
	return true
}

// replySend returns the reply's Send. The head usually follows the header
// already; otherwise it is copied there.
func (rc *reverseCall) replySend() rdma.WR {
	wr := rdma.WR{Op: rdma.OpSend, Done: rc}
	head := rc.hdr.AppendTo(rc.replyBuf.B[:0])
	if rc.hdr.Proc == wire.Error {
		wr.Data = append(rc.iov[:0], head)
		return wr
	}
	wr.Data = rc.rep.AppendBody(append(rc.iov[:0], append(head, rc.rep.Head...)))
	return wr
}

// Complete releases the call when the reply has been sent (rdma.Completer).
func (rc *reverseCall) Complete(rdma.Completion) { rc.releaseMemory() }

// releaseMemory releases the call's memory.
func (rc *reverseCall) releaseMemory() {
	rc.replyBuf.Release()
	rc.rep.DropItem()
	rc.s.endCall()
}
