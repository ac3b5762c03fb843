package oncrpc

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A clientCall is one TCPClient call. Calls are recycled.
type clientCall struct {
	x           *Exchange
	xid         uint32
	head        []byte // record mark, header, arguments
	item        []byte // the Exchange's data item; tail follows it
	tail        []byte
	maxReply    int  // the longest reply, in bytes
	placesItem  bool // a data item is received into the Sink
	queuedCheck int  // TCPClient.checks when the call was queued

	reply      chan outcome  // capacity 1: the reply or the error
	writerDone chan struct{} // capacity 1: the writer no longer uses the call
}

// An outcome is a call's reply or error.
type outcome struct {
	record  *buf.Buf // without its item, if that is in the Sink
	itemLen int      // bytes in the Sink
	itemPos int      // the item's offset in the whole record
	err     error
}

// Call makes a call (Caller). If ctx ends first, the connection remains usable,
// and a late reply is dropped.
func (c *TCPClient) Call(ctx context.Context, x *Exchange) error {
	_, err := c.callWithXID(ctx, x, x.XID)
	return err
}

// callWithXID makes a call with the XID that it had before, unless another call uses it;
// xid 0 means a new XID. It returns the XID, or xid if the call was not sent.
func (c *TCPClient) callWithXID(ctx context.Context, x *Exchange, xid uint32) (uint32, error) {
	if ctx.Err() != nil {
		return xid, context.Cause(ctx)
	}
	cl, err := c.startCall(x, xid)
	if err != nil {
		return xid, err
	}
	defer c.active.Done()
	xid, err = cl.xid, c.awaitReply(ctx, cl)
	cl.x, cl.item, cl.tail = nil, nil, nil
	if cap(cl.head) <= maxKeptHead {
		c.callPool.Put(cl)
	}
	return xid, err
}

// startCall assigns an XID to the call and queues it for writing.
func (c *TCPClient) startCall(x *Exchange, xid uint32) (*clientCall, error) {
	cl, _ := c.callPool.Get().(*clientCall)
	if cl == nil {
		cl = &clientCall{reply: make(chan outcome, 1), writerDone: make(chan struct{}, 1)}
	}
	signed := x.Signer != nil
	if signed { // the XID is signed too
		c.mu.Lock()
		cl.xid = c.xidLocked(xid)
		c.mu.Unlock()
	}
	x.Bind(securityOf(c.nc))
	if err := cl.encodeCall(x, c.machine); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		x.Sent() // others need not wait for it
		return nil, c.err
	}
	c.active.Add(1)
	if !signed {
		cl.xid = c.xidLocked(xid)
		binary.BigEndian.PutUint32(cl.head[markLen:], cl.xid)
	}
	c.calls[cl.xid], cl.queuedCheck = cl, c.overdueChecks
	c.maxReply = max(c.maxReply, cl.maxReply)
	c.out.putLocked(cl)
	x.Sent()
	return cl, nil
}

// xidLocked returns an XID that no call in flight has: xid, if possible.
func (c *TCPClient) xidLocked(xid uint32) uint32 {
	for xid == 0 || c.calls[xid] != nil {
		xid = c.xids.Next()
	}
	return xid
}

// awaitReply waits for the reply, or until ctx ends. After its return the caller may
// reuse x's slices.
func (c *TCPClient) awaitReply(ctx context.Context, cl *clientCall) error {
	select {
	case o := <-cl.reply:
		c.awaitWritten(ctx, cl) // a server may reply before it has read the whole call
		return o.deliverTo(cl.x, cl.xid)
	case <-ctx.Done():
		c.abandonCall(cl)
		c.awaitWritten(ctx, cl)
		return context.Cause(ctx)
	}
}

// awaitWritten waits until the call is written. If ctx ends first, it withdraws the call
// from the writer.
func (c *TCPClient) awaitWritten(ctx context.Context, cl *clientCall) {
	select {
	case <-cl.writerDone:
	case <-ctx.Done():
		c.withdrawCall(cl)
		<-cl.writerDone
	}
}

// abandonCall removes cl from the unanswered calls, so that its reply is dropped.
func (c *TCPClient) abandonCall(cl *clientCall) {
	c.mu.Lock()
	waits := c.calls[cl.xid] == cl && c.placing != cl
	c.evictLocked(cl)
	delete(c.calls, cl.xid)
	c.mu.Unlock()
	if waits {
		return
	}
	if o := <-cl.reply; o.record != nil { // the reader already took it
		o.record.Release()
	}
}

// encodeCall encodes the call. Without a Signer, the XID may still change.
func (cl *clientCall) encodeCall(x *Exchange, machine string) (err error) {
	cl.x = x
	overhead, apart := x.ReplyOverhead()
	cl.placesItem = apart && x.Locate != nil && !x.Relay
	cl.maxReply = overhead + x.MaxResults + len(x.Sink) + xdr.Pad(len(x.Sink))
	cl.head = append(cl.head[:0], make([]byte, markLen)...)
	if cl.head, cl.item, cl.tail, err = x.AppendMessage(cl.head, cl.xid, machine); err != nil {
		return err
	}
	n := cl.recordLen() - markLen
	if n > math.MaxInt32 {
		return fmt.Errorf("oncrpc: a call of %d bytes is too long for a record fragment", n)
	}
	binary.BigEndian.PutUint32(cl.head, lastFrag|uint32(n))
	return nil
}

// recordLen returns the call record's length in bytes.
func (cl *clientCall) recordLen() int {
	return len(cl.head) + len(cl.item) + xdr.Pad(len(cl.item)) + len(cl.tail)
}

// appendRecord appends the call's record, as one fragment, to v.
func (cl *clientCall) appendRecord(v net.Buffers) net.Buffers {
	for _, part := range [...][]byte{cl.head, cl.item, padding[:xdr.Pad(len(cl.item))], cl.tail} {
		if len(part) > 0 {
			v = append(v, part)
		}
	}
	return v
}

// deliverTo stores the results of call xid in its Exchange.
func (o outcome) deliverTo(x *Exchange, xid uint32) error {
	if o.err != nil {
		return o.err
	}
	if err := x.TakeReply(o.record.B, xid); err != nil {
		x.Results = xdr.Reader{}
		o.record.Release()
		return err
	}
	if o.itemLen > 0 {
		x.Results.SetItem(o.itemPos, x.Sink[:o.itemLen])
	}
	x.Lent = o.record
	return nil
}
