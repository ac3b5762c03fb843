package oncrpc

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A clientCall is one call of a TCPClient. Calls are recycled.
type clientCall struct {
	x        *Exchange
	xid      uint32
	head     []byte // record mark, header, arguments
	item     []byte // the data item, and what follows it: the Exchange's
	tail     []byte
	maxReply int  // bytes of the longest reply
	locates  bool // a data item goes to the Sink
	checks   int  // TCPClient.checks when it was queued

	reply chan outcome  // room for one: the reply or the error
	left  chan struct{} // room for one: the writer no longer uses the call
}

// An outcome is the end of a call: a reply, or an error.
type outcome struct {
	record *buf.Buf // without its item, if that is in the Sink
	item   int      // bytes in the Sink
	at     int      // offset of the item in the whole record
	err    error
}

// Call makes a call (Caller). If ctx ends first, the connection remains usable,
// and a late reply is dropped.
func (c *TCPClient) Call(ctx context.Context, x *Exchange) error {
	_, err := c.call(ctx, x, x.XID)
	return err
}

// call makes a call with the XID of its earlier transmission, unless another call
// has that; xid 0 means a new XID. It returns the XID, or xid if the call was not sent.
func (c *TCPClient) call(ctx context.Context, x *Exchange, xid uint32) (uint32, error) {
	if ctx.Err() != nil {
		return xid, context.Cause(ctx)
	}
	cl, err := c.begin(x, xid)
	if err != nil {
		return xid, err
	}
	defer c.under.Done()
	xid, err = cl.xid, c.await(ctx, cl)
	cl.x, cl.item, cl.tail = nil, nil, nil
	if cap(cl.head) <= keptHead {
		c.unused.Put(cl)
	}
	return xid, err
}

// begin assigns an XID to the call and queues it for writing.
func (c *TCPClient) begin(x *Exchange, xid uint32) (*clientCall, error) {
	cl, _ := c.unused.Get().(*clientCall)
	if cl == nil {
		cl = &clientCall{reply: make(chan outcome, 1), left: make(chan struct{}, 1)}
	}
	signed := x.Signer != nil
	if signed { // the XID is signed too
		c.mu.Lock()
		cl.xid = c.xidLocked(xid)
		c.mu.Unlock()
	}
	x.Bind(securityOf(c.nc))
	if err := cl.build(x, c.machine); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		x.Sent() // others need not wait for it
		return nil, c.err
	}
	c.under.Add(1)
	if !signed {
		cl.xid = c.xidLocked(xid)
		binary.BigEndian.PutUint32(cl.head[markLen:], cl.xid)
	}
	c.calls[cl.xid], cl.checks = cl, c.checks
	c.longest = max(c.longest, cl.maxReply)
	c.out.putLocked(cl)
	x.Sent()
	return cl, nil
}

// xidLocked returns an XID that no call under way has: xid, if that is one.
func (c *TCPClient) xidLocked(xid uint32) uint32 {
	for xid == 0 || c.calls[xid] != nil {
		xid = c.xids.Next()
	}
	return xid
}

// await waits for the call's end. After its return the slices of x belong to
// the caller again.
func (c *TCPClient) await(ctx context.Context, cl *clientCall) error {
	select {
	case o := <-cl.reply:
		c.leave(ctx, cl) // a server may answer before it has read the whole call
		return o.deliverTo(cl.x, cl.xid)
	case <-ctx.Done():
		c.forget(cl)
		c.leave(ctx, cl)
		return context.Cause(ctx)
	}
}

// leave waits until the call is written. If ctx ends first, leave withdraws the
// call from the writer.
func (c *TCPClient) leave(ctx context.Context, cl *clientCall) {
	select {
	case <-cl.left:
	case <-ctx.Done():
		c.withdraw(cl)
		<-cl.left
	}
}

// forget removes cl from the unanswered calls, so that its reply is dropped.
func (c *TCPClient) forget(cl *clientCall) {
	c.mu.Lock()
	waits := c.calls[cl.xid] == cl && c.placing != cl
	c.evictLocked(cl)
	delete(c.calls, cl.xid)
	c.mu.Unlock()
	if waits {
		return
	}
	if o := <-cl.reply; o.record != nil { // already taken by the reader
		o.record.Release()
	}
}

// build encodes the call. Without a Signer, it may have another XID later.
func (cl *clientCall) build(x *Exchange, machine string) (err error) {
	cl.x = x
	room, apart := x.ReplyRoom()
	cl.locates = apart && x.Locate != nil && !x.Relay
	cl.maxReply = room + x.MaxResults + len(x.Sink) + xdr.Pad(len(x.Sink))
	cl.head = append(cl.head[:0], make([]byte, markLen)...)
	if cl.head, cl.item, cl.tail, err = x.AppendMessage(cl.head, cl.xid, machine); err != nil {
		return err
	}
	n := cl.len() - markLen
	if n > math.MaxInt32 {
		return fmt.Errorf("oncrpc: a call of %d bytes is too long for a record's fragment", n)
	}
	binary.BigEndian.PutUint32(cl.head, lastFrag|uint32(n))
	return nil
}

// len returns the length of the call's record in bytes.
func (cl *clientCall) len() int {
	return len(cl.head) + len(cl.item) + xdr.Pad(len(cl.item)) + len(cl.tail)
}

// appendTo appends the parts of the call's record, one fragment, to v.
func (cl *clientCall) appendTo(v net.Buffers) net.Buffers {
	for _, part := range [...][]byte{cl.head, cl.item, padding[:xdr.Pad(len(cl.item))], cl.tail} {
		if len(part) > 0 {
			v = append(v, part)
		}
	}
	return v
}

// deliverTo gives the results of call xid to its Exchange.
func (o outcome) deliverTo(x *Exchange, xid uint32) error {
	if o.err != nil {
		return o.err
	}
	if err := x.TakeReply(o.record.B, xid); err != nil {
		x.Results = xdr.Reader{}
		o.record.Release()
		return err
	}
	if o.item > 0 {
		x.Results.SetItem(o.at, x.Sink[:o.item])
	}
	x.Lent = o.record
	return nil
}
