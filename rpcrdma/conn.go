package rpcrdma

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A conn is one connection at a responder. It is the rdma.Handler for its
// connection.
type conn struct {
	srv        *Server
	party      *party
	peer       oncrpc.Peer
	maxSend    int  // maximum Send length to the peer, in bytes
	invalidate bool // the peer accepts a Send With Invalidate
	reverse    ReverseClient
	reader     connReader
	extConn    *ExtensionConn // or nil

	ctx    context.Context // for the handlers that run for this connection
	cancel context.CancelCauseFunc

	evicted bool // chosen to be closed; guarded by the server's lock

	acceptedAt time.Time
	rc         rdma.Conn     // set once ready is closed; nil if the set-up failed
	isSetUp    atomic.Bool   // ready is closed
	ready      chan struct{} // the reader may be faster than Accept's return

	mu            sync.Mutex
	callCount     uint64        // received
	inFlight      int           // received and not completed
	lastProgress  time.Duration // when a call last completed, or began on an idle connection; since Server.startTime
	credits       credits
	waiting       callQueue // calls that wait for memory
	hasWaiter     bool      // a goroutine reserves memory for them
	freeCalls     callQueue // completed calls, kept for reuse
	freeCount     int
	watch         stallWatch
	lastSight     fairshare.Sight
	inlineBytes   int64 // bytes used by calls, excluding memory for chunks
	overLimit     bool  // inlineBytes was too large; the connection is closing
	draining      bool  // accepts no more calls, and closes after the last
	closing       bool  // close has been started
	closed        bool  // Closed has been called
	closeReturned bool  // close has returned
	forgotten     bool  // the server has removed it
}

func newConn(s *Server, p *party, req rdma.ConnRequest) *conn {
	c := &conn{srv: s, party: p, ready: make(chan struct{})}
	c.peer = peerOf(req)
	c.peer.Cut, c.peer.Conn = c.abort, oncrpc.NewConnection(c.isLost)
	c.reverse.c, c.peer.Reverse = c, &c.reverse
	c.maxSend, c.invalidate = s.cfg.replyThreshold(req.PrivateData())
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.watch.timer = time.AfterFunc(stallTime, c.checkProgress)
	c.watch.timer.Stop()
	c.credits.init(&s.cfg)
	c.lastProgress = time.Since(s.startTime)
	return c
}

// acceptPeer accepts the connection and sets it up.
func (c *conn) acceptPeer(req rdma.ConnRequest) {
	cfg := &c.srv.cfg
	cc := rdma.ConnConfig{
		Handler:     c,
		PrivateData: cfg.privateData(),
		RecvSize:    cfg.inline,
		Recvs:       c.credits.recvs,
	}
	c.extConn = c.srv.Extensions.offerAsResponder(req.PrivateData(), &cc, c.party.Own.counters, c.srv.log)
	rc, err := req.Accept(cc)
	if err != nil {
		c.extConn.freeUnused()
		c.Closed(err)
		c.markReady()
		c.mu.Lock()
		c.finishUnlock()
		return
	}
	c.rc, c.acceptedAt = rc, time.Now()
	c.peer.Local = addrPort(rc.LocalAddr())
	c.reader.init(rc, !c.srv.Waits)
	c.reader.relief.Relieve = c.relieveReader
	c.extConn.startExtensions(rc)
	c.markReady()
	c.srv.log.Debug("RDMA connection accepted", "peer", &c.peer, "threshold", c.maxSend, "invalidate", c.invalidate)
	c.mu.Lock()
	c.finishUnlock()
}

// Receive receives a message. It parses the header, and serves a short call or
// passes the call on.
func (c *conn) Receive(r rdma.Recv) {
	if !c.isReady() {
		<-c.ready
	}
	if c.receiveReverse(r) {
		return
	}
	cl, tooMuch := c.beginCall(r.Buf)
	if tooMuch {
		c.srv.endLargest()
	}
	if cl == nil {
		r.Buf.Release()
		return
	}
	if trace := c.srv.Trace; trace != nil {
		cl.rep.Trace = trace()
	}
	body, err := cl.hdr.ParseCall(r.Buf.B)
	cl.countLists()
	if err == nil && c.srv.failedCalls.removeCall(c.peer.Addr.Addr(), cl.hdr.XID) { // Section 4.5.3
		err = cl.hdr.Fail("rdma_xid", 0, errFailedBefore)
	}
	if err == nil {
		err = cl.makePlan(body)
	}
	if err != nil {
		cl.rejectCall(err)
		return
	}
	c.reserveMemory(cl)
}

// beginCall creates a call from a message, or returns nil if the connection
// accepts no more. It reports whether messages now exceed MaxInline.
func (c *conn) beginCall(msg *buf.Buf) (cl *call, tooMuch bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining || c.closed || c.overLimit {
		return nil, false
	}
	c.callCount++
	if c.inFlight++; c.inFlight == 1 {
		c.lastProgress = time.Since(c.srv.startTime)
	}
	cl = c.freeCalls.pop()
	if cl == nil {
		cl = &call{conn: c}
	} else {
		c.freeCount--
	}
	cl.recv = msg
	return cl, cl.countMessageLocked(msg)
}

// endCall must be called once for each call that began, when the call has released everything. It
// keeps the call for reuse.
func (c *conn) endCall(cl *call) {
	c.mu.Lock()
	c.inFlight--
	c.lastProgress = time.Since(c.srv.startTime)
	cl.removeInlineLocked()
	if c.freeCount < maxFreeCalls && !cl.longLists {
		cl.inlineBytes = 0
		c.freeCalls.push(cl)
		c.freeCount++
	}
	err := c.postOwedLocked()
	c.finishUnlock()
	c.abortOnError(err)
}

// Closed is called when the connection has ended. Calls that are still running
// fail when they try to reply.
func (c *conn) Closed(err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	c.peer.Conn.End()
	ours := c.closing
	c.watch.timer.Stop()
	c.recordEndedCallsLocked(err)
	c.cancel(err)
	if err == nil || errors.Is(err, io.EOF) {
		c.srv.log.Debug("RDMA connection closed", "peer", &c.peer)
	} else {
		c.srv.log.Warn("RDMA connection lost", "peer", &c.peer, "err", err)
	}
	c.finishUnlock()
	if ours {
		err = rdma.ErrClosed // even if the requester reported another cause
	}
	c.endReverse(err)
}

// drain stops accepting calls, and closes the connection after the last reply.
func (c *conn) drain() {
	c.mu.Lock()
	c.draining = true
	c.finishUnlock()
}

// finishUnlock closes or removes the connection if that is due after a call or
// the connection has ended. The caller holds the lock; finishUnlock releases
// it.
func (c *conn) finishUnlock() {
	idle := c.inFlight == 0
	// While the connection is being set up there is nothing to close or to
	// remove; acceptPeer calls this again.
	closeNow := (c.closed || c.draining && idle) && !c.closing && c.isReady()
	c.closing = c.closing || closeNow
	forget := c.closed && idle && c.closeReturned && !c.forgotten
	c.forgotten = c.forgotten || forget
	c.mu.Unlock()
	if closeNow {
		go c.close() // waits for Closed, which this goroutine may have to call
	}
	if forget {
		c.srv.forgetConn(c)
	}
}

// close closes the connection and waits until all its goroutines are done.
func (c *conn) close() {
	if c.rc != nil {
		c.rc.Close()
	}
	c.mu.Lock()
	c.closeReturned = true
	c.finishUnlock()
}

// markReady records that the set-up is complete.
func (c *conn) markReady() {
	c.isSetUp.Store(true)
	close(c.ready)
}

// isReady reports whether the set-up is complete. Testing the channel would cost its lock.
func (c *conn) isReady() bool { return c.isSetUp.Load() }

// isLost reports whether the peer has probably abandoned the connection.
func (c *conn) isLost() bool {
	if !c.isReady() {
		return false
	}
	d, ok := c.rc.(rdma.LossDetector)
	return ok && d.IsLost()
}

// abort aborts the connection with a cause. It does not wait.
func (c *conn) abort(cause error) {
	if c.isReady() && c.rc != nil {
		c.rc.Abort(cause)
	}
}
