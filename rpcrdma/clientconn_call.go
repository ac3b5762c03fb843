package rpcrdma

import (
	"context"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// A clientCall is one call of a requester.
//
//	waits ──credit──▶ admitted ──Post──▶ sent ──reply──▶ got ──▶ ended
//	                                       │               ▲
//	                                 caller leaves         │ result unused
//	                                       └─▶ abandoned ──┘
type clientCall struct {
	c   *ClientConn
	x   *oncrpc.Exchange
	xid uint32
	own bool // xid is the caller's, and stays

	hdr     wire.Header
	out     *buf.Buf // the message to send: RPC message behind room for the transport header
	msg     []byte   // RPC message up to the data item, in out
	item    []byte   // the data item, and what follows it: the Exchange's
	tail    []byte
	work    [1]rdma.WR
	wire    [2][]byte // data of work
	args    exposed   // memory of the Read list: the data item, or the whole message
	results exposed   // memory of the Write list, or the Reply chunk

	// admitted is set with the credit. sent is set once all of the above is.
	// abandoned is set when the caller no longer waits for the reply: the
	// goroutine that removes the call from ClientConn.calls then ends the call.
	// ClientConn.mu guards all three.
	admitted, sent, abandoned bool
	checks                    int // ClientConn.checks when it was sent

	turn    chan struct{} // room for one: the credit, or the connection's end
	got     chan outcome  // room for one
	holders atomic.Int32  // the call, and its Send
}

// An outcome is the result of a call: the reply, or an error.
type outcome struct {
	recv    *buf.Buf // the message; body aliases it
	body    []byte   // the RPC message, if inline
	inChunk int      // bytes of it in the Reply chunk, otherwise
	item    int      // bytes written to Sink
	err     error
}

// CallXID is Call with an XID of the caller, as the relay of a signed call needs it:
// the signature includes the XID (RFC 2203, Section 5.3.1). No other call under way
// may have that XID, so either all calls of a ClientConn are such calls or none.
func (c *ClientConn) CallXID(ctx context.Context, x *oncrpc.Exchange, xid uint32) error {
	o, err := c.enter(ctx, x, xid, true)
	if err != nil {
		return err
	}
	return o.make(ctx, x)
}

// Call makes a call (oncrpc.Caller). If ctx ends first, the memory of the call
// is protected before Call returns, and the credit is released when the reply
// arrives after all (RFC 8166, Section 4.4.1).
func (c *ClientConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	_, err := c.call(ctx, x, x.XID)
	return err
}

// call makes a call with the XID of its earlier transmission; xid 0 means a new
// XID. It returns the XID, or 0 if the call has none, because it never got a
// credit.
func (c *ClientConn) call(ctx context.Context, x *oncrpc.Exchange, xid uint32) (uint32, error) {
	o, err := c.enter(ctx, x, xid, false)
	if err != nil {
		return xid, err
	}
	xid = o.xid
	return xid, o.make(ctx, x)
}

// make sends a call that has a credit, and waits for the reply.
func (o *clientCall) make(ctx context.Context, x *oncrpc.Exchange) error {
	err := o.begin()
	x.Sent()
	if err != nil {
		o.end()
		return err
	}
	return o.await(ctx)
}

// begin chooses the call's form, registers its memory and sends it.
func (o *clientCall) begin() error {
	c := o.c
	if err := o.build(); err != nil {
		return o.unsent(err)
	}
	if err := c.conn.PostRecv(1); err != nil { // for the reply: Section 3.3.1
		return o.unsent(err)
	}
	c.mu.Lock()
	o.sent, o.checks = true, c.checks
	if c.nudge != nil {
		c.nudge.Reset(nudgeAfter)
	}
	c.mu.Unlock()
	o.send()
	o.holders.Add(1)
	if err := c.conn.Post(o.work[:]...); err != nil {
		o.release()
		return o.unsent(err)
	}
	return nil
}

// unsent takes back a call that was not sent. If the connection has ended, it
// returns the cause of that, which is the better error.
func (o *clientCall) unsent(err error) error {
	c := o.c
	c.mu.Lock()
	if c.calls[o.xid] == o {
		c.leaveLocked(o)
		c.mu.Unlock()
		return err
	}
	c.mu.Unlock()
	a := <-o.got
	a.drop()
	if a.err != nil {
		return a.err
	}
	return err
}

// Complete handles the completion of the Send (rdma.Completer).
func (o *clientCall) Complete(rdma.Completion) { o.release() }

// await waits for the reply.
func (o *clientCall) await(ctx context.Context) error {
	select {
	case a := <-o.got:
		o.protect()
		err := o.deliver(&a)
		o.end()
		return err
	case <-ctx.Done():
		o.forsake()
		return context.Cause(ctx)
	}
}

// forsake returns the caller's memory to the caller and abandons the call: a
// reply that still comes only frees the credit.
func (o *clientCall) forsake() {
	o.args.handOver()
	o.results.handOver()
	c := o.c
	c.mu.Lock()
	if c.calls[o.xid] == o {
		o.abandoned, o.x = true, nil
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	a := <-o.got // the outcome is on its way
	a.drop()
	o.end()
}

// protect ends the server's access to the call's memory, before the memory is
// read (RFC 8166, Section 4.4.1).
func (o *clientCall) protect() {
	o.args.close()
	o.results.close()
}

// end releases the call's buffers, and then the call.
func (o *clientCall) end() {
	o.protect()
	o.args.giveUp()
	o.results.giveUp()
	o.release()
}

// drop releases the message of a reply that nobody reads.
func (a *outcome) drop() {
	if a.recv != nil {
		a.recv.Release()
		a.recv = nil
	}
}
