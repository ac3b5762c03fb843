package rpcrdma

import (
	"context"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// A clientCall is one call by a requester.
//
//	waits ──credit──▶ admitted ──Post──▶ sent ──reply──▶ got ──▶ ended
//	                                       │               ▲
//	                                 caller leaves         │ result unused
//	                                       └─▶ abandoned ──┘
type clientCall struct {
	c      *ClientConn
	x      *oncrpc.Exchange
	xid    uint32
	ownXID bool // xid was chosen by the caller, and is kept

	hdr     wire.Header
	out     *buf.Buf // the message to send: space for the transport header, then the RPC message
	msg     []byte   // RPC message up to the data item, in out
	item    []byte   // the data item, and what follows it, from the Exchange
	tail    []byte
	work    [1]rdma.WR
	wire    [2][]byte     // work's Data
	args    exposedMemory // Read list memory: the data item, or the complete message
	results exposedMemory // Write list or Reply chunk memory

	// admitted is set when the call gets a credit. sent is set once all of the
	// above is set. abandoned is set when the caller no longer waits for the
	// reply: the goroutine that removes the call from ClientConn.calls then
	// releases the call. ClientConn.mu guards all three.
	admitted, sent, abandoned bool
	checks                    int // ClientConn.checks when it was sent

	wake     chan struct{} // capacity 1: the call got a credit, or the connection ended
	outcomes chan outcome  // capacity 1
	holders  atomic.Int32  // the call and its Send
}

// An outcome is a call's result: the reply, or an error.
type outcome struct {
	recv    *buf.Buf // the message; body aliases it
	body    []byte   // the RPC message, if inline
	inChunk int      // otherwise, its length in the Reply chunk
	item    int      // number of bytes written to Sink
	err     error
}

// CallXID is like Call, but with an XID chosen by the caller, as needed to relay a signed call: the
// signature includes the XID (RFC 2203, Section 5.3.1). No other call in flight may have that XID,
// so either all calls on a ClientConn use CallXID or none.
func (c *ClientConn) CallXID(ctx context.Context, x *oncrpc.Exchange, xid uint32) error {
	o, err := c.acquireCredit(ctx, x, xid, true)
	if err != nil {
		return err
	}
	return o.sendAndWait(ctx, x)
}

// Call sends a call and waits for the reply (oncrpc.Caller). If ctx ends first,
// the call's memory is protected before Call returns, and the credit is
// released when the late reply arrives (RFC 8166, Section 4.4.1).
func (c *ClientConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	_, err := c.callWithXID(ctx, x, x.XID)
	return err
}

// callWithXID makes a call with the XID from its earlier transmission; xid 0 means a new XID. It
// returns the XID, or 0 if the call has none because it never got a credit.
func (c *ClientConn) callWithXID(ctx context.Context, x *oncrpc.Exchange, xid uint32) (uint32, error) {
	o, err := c.acquireCredit(ctx, x, xid, false)
	if err != nil {
		return xid, err
	}
	xid = o.xid
	return xid, o.sendAndWait(ctx, x)
}

// sendAndWait sends a call that has a credit, and waits for the reply.
func (o *clientCall) sendAndWait(ctx context.Context, x *oncrpc.Exchange) error {
	err := o.sendCall()
	x.Sent()
	if err != nil {
		o.releaseAll()
		return err
	}
	return o.awaitReply(ctx)
}

// sendCall chooses the call's form, registers its memory and sends it.
func (o *clientCall) sendCall() error {
	c := o.c
	if err := o.buildCall(); err != nil {
		return o.withdrawUnsent(err)
	}
	if err := c.conn.PostRecv(1); err != nil { // for the reply: Section 3.3.1
		return o.withdrawUnsent(err)
	}
	c.mu.Lock()
	o.sent, o.checks = true, c.checks
	if c.nudgeTimer != nil {
		c.nudgeTimer.Reset(nudgeAfter)
	}
	c.mu.Unlock()
	o.assembleSend()
	o.holders.Add(1)
	if err := c.conn.Post(o.work[:]...); err != nil {
		o.releaseHold()
		return o.withdrawUnsent(err)
	}
	return nil
}

// withdrawUnsent removes a call that was not sent. If the connection has ended, it returns that
// cause, which is the better error.
func (o *clientCall) withdrawUnsent(err error) error {
	c := o.c
	c.mu.Lock()
	if c.calls[o.xid] == o {
		c.removeLocked(o)
		c.mu.Unlock()
		return err
	}
	c.mu.Unlock()
	a := <-o.outcomes
	a.releaseReply()
	if a.err != nil {
		return a.err
	}
	return err
}

// Complete handles the Send's completion (rdma.Completer).
func (o *clientCall) Complete(rdma.Completion) { o.releaseHold() }

// awaitReply waits for the reply.
func (o *clientCall) awaitReply(ctx context.Context) error {
	select {
	case a := <-o.outcomes:
		o.revokeAccess()
		err := o.deliverResults(&a)
		o.releaseAll()
		return err
	case <-ctx.Done():
		o.abandonCall()
		return context.Cause(ctx)
	}
}

// abandonCall returns the caller's memory to the caller and abandons the call:
// a late reply only frees the credit.
func (o *clientCall) abandonCall() {
	o.args.returnMemory()
	o.results.returnMemory()
	c := o.c
	c.mu.Lock()
	if c.calls[o.xid] == o {
		o.abandoned, o.x = true, nil
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	a := <-o.outcomes // the outcome is on its way
	a.releaseReply()
	o.releaseAll()
}

// revokeAccess revokes the server's access to the call's memory, before the memory is read (RFC
// 8166, Section 4.4.1).
func (o *clientCall) revokeAccess() {
	o.args.deregister()
	o.results.deregister()
}

// releaseAll releases the call's buffers, and then the call.
func (o *clientCall) releaseAll() {
	o.revokeAccess()
	o.args.releaseBuffer()
	o.results.releaseBuffer()
	o.releaseHold()
}

// releaseReply releases a reply message that no one reads.
func (a *outcome) releaseReply() {
	if a.recv != nil {
		a.recv.Release()
		a.recv = nil
	}
}
