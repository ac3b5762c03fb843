package rpcrdma

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A conn is one connection of a responder. It is the rdma.Handler of its
// connection.
type conn struct {
	srv        *Server
	party      *party
	peer       oncrpc.Peer
	longest    int  // bytes of a Send to the peer
	invalidate bool // the peer takes a Send With Invalidate
	back       ReverseClient
	reader     reader
	link       *ExtensionConn // or nil

	ctx    context.Context // of the handlers that run for this connection
	cancel context.CancelCauseFunc

	leaving bool // chosen to be ended; guarded by the server's lock

	since time.Time
	rc    rdma.Conn     // set when ready is closed; nil if the set-up failed
	made  atomic.Bool   // ready is closed
	ready chan struct{} // the reader may be faster than Accept's return

	mu        sync.Mutex
	calls     uint64        // received
	underWay  int           // received and not ended
	moved     time.Duration // when a call last ended, or began on an idle connection; since Server.began
	credits   credits
	waiting   callQueue // calls that wait for memory
	waiter    bool      // a goroutine reserves memory for them
	idle      callQueue // ended calls, kept for reuse
	spares    int
	watch     watch
	seen      fairshare.Sight
	inline    int64 // bytes that calls take besides memory for chunks
	overLimit bool  // inline was too much; the connection is ending
	draining  bool  // takes no more calls, and closes after the last
	closing   bool  // close has been started
	closed    bool  // Closed has been called
	shut      bool  // close has returned
	gone      bool  // the server has forgotten it
}

func newConn(s *Server, p *party, req rdma.ConnRequest) *conn {
	c := &conn{srv: s, party: p, ready: make(chan struct{})}
	c.peer = peerOf(req)
	c.peer.Cut = c.abort
	c.back.c, c.peer.Reverse = c, &c.back
	c.longest, c.invalidate = s.cfg.replyThreshold(req.PrivateData())
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.watch.timer = time.AfterFunc(stallTime, c.checkProgress)
	c.watch.timer.Stop()
	c.credits.init(&s.cfg)
	c.moved = time.Since(s.began)
	return c
}

// start accepts the peer.
func (c *conn) start(req rdma.ConnRequest) {
	cfg := &c.srv.cfg
	cc := rdma.ConnConfig{
		Handler:     c,
		PrivateData: cfg.privateData(),
		RecvSize:    cfg.inline,
		Recvs:       c.credits.recvs,
	}
	c.link = c.srv.Extensions.accept(req.PrivateData(), &cc, c.party.Own.counters, c.srv.log)
	rc, err := req.Accept(cc)
	if err != nil {
		c.link.drop()
		c.Closed(err)
		c.getReady()
		c.mu.Lock()
		c.finishUnlock()
		return
	}
	c.rc, c.since = rc, time.Now()
	c.peer.Local = addrPort(rc.LocalAddr())
	c.reader.init(rc, !c.srv.Waits)
	c.reader.turn.Relieve = c.relieve
	c.link.start(rc)
	c.getReady()
	c.srv.log.Debug("connection made", "peer", &c.peer, "threshold", c.longest, "invalidate", c.invalidate)
	c.mu.Lock()
	c.finishUnlock()
}

// Receive takes a message. It reads the header, and answers a short call or
// hands the call over.
func (c *conn) Receive(r rdma.Recv) {
	if !c.isReady() {
		<-c.ready
	}
	if c.beside(r) {
		return
	}
	cl, tooMuch := c.begin(r.Buf)
	if tooMuch {
		c.srv.shed()
	}
	if cl == nil {
		r.Buf.Release()
		return
	}
	if trace := c.srv.Trace; trace != nil {
		cl.rep.Trace = trace()
	}
	body, err := cl.hdr.ParseCall(r.Buf.B)
	cl.takeLists()
	if err == nil && c.srv.blames.remove(c.peer.Addr.Addr(), cl.hdr.XID) { // Section 4.5.3
		err = cl.hdr.Fail("rdma_xid", 0, errBlamed)
	}
	if err == nil {
		err = cl.makePlan(body)
	}
	if err != nil {
		cl.refuse(err)
		return
	}
	c.reserve(cl)
}

// begin makes a call of a message, or returns nil if the connection takes no
// more. It reports whether there are too many bytes of messages now.
func (c *conn) begin(msg *buf.Buf) (cl *call, tooMuch bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining || c.closed || c.overLimit {
		return nil, false
	}
	c.calls++
	if c.underWay++; c.underWay == 1 {
		c.moved = time.Since(c.srv.began)
	}
	cl = c.idle.pop()
	if cl == nil {
		cl = &call{conn: c}
	} else {
		c.spares--
	}
	cl.recv = msg
	return cl, cl.takeLocked(msg)
}

// end must be called once for each call that began, when the call holds nothing
// any more. It keeps the call for reuse.
func (c *conn) end(cl *call) {
	c.mu.Lock()
	c.underWay--
	c.moved = time.Since(c.srv.began)
	cl.giveLocked()
	if c.spares < maxSpares && !cl.long {
		cl.inline = 0
		c.idle.push(cl)
		c.spares++
	}
	err := c.settleDebtLocked()
	c.finishUnlock()
	c.broken(err)
}

// Closed is called at the end of the connection. Calls that still run notice
// when they try to answer.
func (c *conn) Closed(err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	ours := c.closing
	c.watch.timer.Stop()
	c.blameEndedLocked(err)
	c.cancel(err)
	if err == nil || errors.Is(err, io.EOF) {
		c.srv.log.Debug("connection closed", "peer", &c.peer)
	} else {
		c.srv.log.Warn("connection lost", "peer", &c.peer, "err", err)
	}
	c.finishUnlock()
	if ours {
		err = rdma.ErrClosed // even if the requester's answer gives another cause
	}
	c.endBeside(err)
}

// drain stops taking calls, and closes the connection after the last reply.
func (c *conn) drain() {
	c.mu.Lock()
	c.draining = true
	c.finishUnlock()
}

// finishUnlock closes or forgets the connection if a call's or the connection's
// end has made that due. The caller holds the lock; finishUnlock releases it.
func (c *conn) finishUnlock() {
	idle := c.underWay == 0
	// While the connection is being set up there is nothing to close, and
	// nothing to forget; start comes back here.
	closeNow := (c.closed || c.draining && idle) && !c.closing && c.isReady()
	c.closing = c.closing || closeNow
	forget := c.closed && idle && c.shut && !c.gone
	c.gone = c.gone || forget
	c.mu.Unlock()
	if closeNow {
		go c.close() // waits for Closed, which this goroutine may have to call
	}
	if forget {
		c.srv.forget(c)
	}
}

// close ends the connection and waits until all its goroutines are done.
func (c *conn) close() {
	if c.rc != nil {
		c.rc.Close()
	}
	c.mu.Lock()
	c.shut = true
	c.finishUnlock()
}

// getReady notes that the set-up is over.
func (c *conn) getReady() {
	c.made.Store(true)
	close(c.ready)
}

// isReady reports whether the set-up is over. To ask the channel would cost its lock.
func (c *conn) isReady() bool { return c.made.Load() }

// abort ends the connection with a cause. It does not wait.
func (c *conn) abort(cause error) {
	if c.isReady() && c.rc != nil {
		c.rc.Abort(cause)
	}
}
