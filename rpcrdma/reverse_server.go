package rpcrdma

import (
	"context"
	"errors"
	"sync"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/internal/workpool"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// A reverseServer answers calls to a requester in the reverse direction (RFC
// 8167, Section 5.2).
//
// As in the forward direction, a call takes a receive, which is posted again
// just before its reply is posted. A responder that keeps to its grant can have
// at most as many calls under way as were granted, and in addition as many
// replies that have left without this end knowing yet.
type reverseServer struct {
	c       *ClientConn
	service oncrpc.Service
	peer    oncrpc.Peer

	ctx    context.Context // of the calls
	cancel context.CancelCauseFunc
	pool   workpool.Pool

	mu       sync.Mutex
	underWay int
}

var errReverseOverrun = errors.New("rpcrdma: the server makes more reverse calls than were granted")

// startReverse prepares for calls of the responder, if the configuration has a
// Backchannel. It must be called before any receive is posted, because a
// reverse call may take any receive.
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
		s.closed(over)
	}
}

// letReverse lets the responder make calls. It must be called before the first
// call of this end, from which the responder could learn that it may (RFC 8167,
// Section 6).
func (c *ClientConn) letReverse() {
	if c.reverse != nil {
		_ = c.conn.PostRecv(c.cfg.BackchannelCredits) // an error means that the connection ends
	}
}

// takeReverse takes a call in the reverse direction, whose header is c.hdr,
// from the connection's reader; err is the error of the header. A requester
// without a Backchannel drops the call.
func (c *ClientConn) takeReverse(body []byte, err error, msg *buf.Buf) {
	s := c.reverse
	switch {
	case s == nil:
		msg.Release()
		_ = c.conn.PostRecv(1) // an error means that the connection ends
	case !s.begin():
		msg.Release()
		c.conn.Abort(errReverseOverrun)
	default:
		rc := &reverseCall{s: s, recv: msg, hdr: wire.Header{XID: c.hdr.XID, Vers: wire.Version, Credit: uint32(c.cfg.BackchannelCredits)}}
		rc.req.Msg, rc.sound = body, err == nil && c.hdr.Lists.Len() == wire.MinLen-wire.FixedLen
		s.pool.Go(rc)
	}
}

// begin counts a call, if another is allowed.
func (s *reverseServer) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.underWay == 2*s.c.cfg.BackchannelCredits {
		return false
	}
	s.underWay++
	return true
}

func (s *reverseServer) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
}

// closed ends the contexts of the calls when the connection has ended.
func (s *reverseServer) closed(cause error) {
	if s != nil {
		s.cancel(cause)
	}
}

// wait waits for the running calls, after the connection has ended.
func (s *reverseServer) wait() {
	if s != nil {
		s.pool.Close()
	}
}

// A reverseCall is one call to a reverseServer.
type reverseCall struct {
	s     *reverseServer
	recv  *buf.Buf    // req.Msg aliases it
	sound bool        // header and body agree, and there are no chunks
	hdr   wire.Header // of the reply
	req   oncrpc.Request
	rep   oncrpc.Reply
	out   *buf.Buf  // the reply's header and head
	iov   [4][]byte // memory for the parts of the reply
}

// Run answers the call (workpool.Task).
func (rc *reverseCall) Run() {
	c := rc.s.c
	rc.out = buf.Default.Get(c.sendSize)
	answer := rc.serve()
	rc.recv.Release()
	_ = c.conn.PostRecv(1) // an error means that the connection ends
	if !answer || c.conn.Post(rc.send()) != nil {
		rc.end()
	}
}

// serve makes the reply, or an RDMA_ERROR: if the call has chunks (RFC 8167,
// Section 5.3) or a bad header, or the reply does not fit (RFC 8166, Sections
// 4.5.2 and 4.5.3). It returns false if there is no answer.
func (rc *reverseCall) serve() bool {
	s, req, rep := rc.s, &rc.req, &rc.rep
	rc.hdr.Proc, rc.hdr.Code = wire.Error, wire.ErrChunk
	if !rc.sound {
		return true
	}
	rep.Head = rc.out.B[wire.MinLen:wire.MinLen]
	req.Peer, req.MaxReply = &s.peer, len(rc.out.B)-wire.MinLen
	req.MaxWhole = req.MaxReply
	if !s.service.Serve(s.ctx, req, rep) {
		return false
	}
	if rep.Len() <= req.MaxReply {
		rc.hdr.Proc = wire.Msg
	}
	return true
}

// send returns the Send of the reply. The head usually is behind the header
// already; otherwise it is copied there.
func (rc *reverseCall) send() rdma.WR {
	wr := rdma.WR{Op: rdma.OpSend, Done: rc}
	head := rc.hdr.AppendTo(rc.out.B[:0])
	if rc.hdr.Proc == wire.Error {
		wr.Data = append(rc.iov[:0], head)
		return wr
	}
	wr.Data = rc.rep.AppendBody(append(rc.iov[:0], append(head, rc.rep.Head...)))
	return wr
}

// Complete ends the call when the reply has been sent (rdma.Completer).
func (rc *reverseCall) Complete(rdma.Completion) { rc.end() }

// end releases the call's memory.
func (rc *reverseCall) end() {
	rc.out.Release()
	rc.rep.DropItem()
	rc.s.end()
}
