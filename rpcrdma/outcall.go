package rpcrdma

import (
	"context"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// An outCall is one call of a requester.
type outCall struct {
	c   *Client
	x   *oncrpc.Exchange
	xid uint32

	hdr     Header
	out     *buf.Buf // what is sent: RPC message behind room for the transport header
	posted  *buf.Buf // out, for the Send
	msg     []byte   // RPC message up to the data item, in out
	long    *buf.Buf // what a Long Call's Position Zero chunk holds
	reply   *buf.Buf // the Reply chunk
	regions []rdma.Region
	sink    rdma.Region // of them: x.Sink

	got chan outcome
}

// An outcome is what becomes of a call: the reply, or an error.
type outcome struct {
	recv    *buf.Buf // the message; body aliases it
	body    []byte   // the RPC message, where it is inline
	inChunk int      // octets of it in the Reply chunk, where it is there
	item    int      // octets written to Sink
	err     error
}

// forsaken stands for the calls that nobody waits for any more.
var forsaken = new(outCall)

// Call makes a call (oncrpc.Caller). When ctx ends first, the memory of the
// call is protected before Call returns, and the credit is given back when the
// reply comes after all (RFC 8166, Section 4.4.1).
func (c *Client) Call(ctx context.Context, x *oncrpc.Exchange) error {
	_, err := c.call(ctx, x, 0)
	return err
}

// call makes a call with an XID that it was sent with before, or a new one
// where that is 0, and returns the XID, or 0 if the call was not sent.
func (c *Client) call(ctx context.Context, x *oncrpc.Exchange, xid uint32) (uint32, error) {
	if err := c.acquire(ctx); err != nil {
		return xid, err
	}
	o := &outCall{c: c, x: x, xid: xid, got: make(chan outcome, 1)}
	err := o.begin()
	if err == nil {
		err = o.await(ctx)
	}
	o.end()
	return o.xid, err
}

// begin chooses the call's form, registers its memory and sends it.
func (o *outCall) begin() error {
	c := o.c
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return o.unsent(c.err)
	}
	for o.xid == 0 || c.calls[o.xid] != nil {
		o.xid = c.xids.next()
	}
	c.calls[o.xid] = o
	c.mu.Unlock()
	if err := o.build(); err != nil {
		return o.unsent(err)
	}
	if err := c.conn.PostRecv(1); err != nil { // for the reply: Section 3.3.1
		return o.unsent(err)
	}
	c.mu.Lock()
	if c.nudge != nil {
		c.nudge.Reset(nudgeAfter)
	}
	c.mu.Unlock()
	wr := o.send()
	o.posted = o.out.Retain()
	if err := c.conn.Post(wr); err != nil {
		o.posted.Release()
		return o.unsent(err)
	}
	return nil
}

// unsent takes back a call that was not sent.
func (o *outCall) unsent(err error) error {
	c := o.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[o.xid] == o {
		delete(c.calls, o.xid)
		c.used--
		c.admit()
	}
	return err
}

// build encodes the call, and decides how its arguments and its results
// travel.
func (o *outCall) build() error {
	x, c := o.x, o.c
	o.hdr = Header{XID: o.xid, Vers: Version, Credit: uint32(c.cfg.Credits), Proc: Msg}
	n := callRoom + maxCallHeader + len(x.Args) + len(x.Tail)
	if len(x.Item) <= c.sendSize {
		n += len(x.Item) + xdr.Pad(len(x.Item))
	}
	o.out = buf.Default.Get(n)
	o.msg = oncrpc.AppendCall(o.out.B[callRoom:callRoom], o.xid, x, c.cfg.Machine)
	o.msg = append(o.msg, x.Args...)
	if err := o.planResults(); err != nil {
		return err
	}
	return o.planArguments()
}

// planResults offers memory for results that may not fit inline: a Write chunk
// for the data item, or else a Reply chunk, never both (RFC 8166, Sections
// 4.3.2 and 4.3.3).
func (o *outCall) planResults() error {
	x, room := o.x, o.c.recvSize-minLen
	rest := oncrpc.MaxReplyHeader + x.MaxResults
	if rest+len(x.Sink)+xdr.Pad(len(x.Sink)) <= room {
		return nil
	}
	if len(x.Sink) > 0 && rest <= room-writeChunkLen {
		r, err := o.register(x.Sink, rdma.RemoteWrite)
		if err != nil {
			return err
		}
		o.sink = r
		o.hdr.Lists.AddWrite(chunks.Chunk{segment(r, len(x.Sink))})
		return nil
	}
	n := rest + len(x.Sink) + xdr.Pad(len(x.Sink))
	o.reply = o.lend(n)
	clear(o.reply.B) // no stale data for a peer to keep: RFC 5042, Section 6.3.2
	r, err := o.register(o.reply.B, rdma.RemoteWrite)
	if err != nil {
		return err
	}
	o.hdr.Lists.HasReply = true
	o.hdr.Lists.Reply = chunks.Chunk{segment(r, n)}
	return nil
}

// lend returns memory for a reply.
func (o *outCall) lend(n int) *buf.Buf {
	if o.x.Lend != nil {
		return o.x.Lend(n)
	}
	return buf.Default.Get(n)
}

// planArguments leaves the call inline where it fits, else moves its data item
// to a Read chunk, else the whole message to one at position zero (RFC 8166,
// Section 3.5).
func (o *outCall) planArguments() error {
	x, room := o.x, o.c.sendSize-fixedLen-o.hdr.Lists.Len()
	item := len(x.Item) + xdr.Pad(len(x.Item))
	if len(o.msg)+item+len(x.Tail) <= room {
		return nil
	}
	if len(x.Item) > 0 && len(o.msg)+len(x.Tail) <= room-readChunkLen {
		r, err := o.register(x.Item, rdma.RemoteRead)
		if err != nil {
			return err
		}
		o.hdr.Lists.Reads = []chunks.ReadSegment{{Position: uint32(len(o.msg)), Segment: segment(r, len(x.Item))}}
		return nil
	}
	n := len(o.msg) + item + len(x.Tail)
	o.long = buf.Default.Get(n)
	whole := append(o.long.B[:0], o.msg...)
	whole = append(whole, x.Item...)
	whole = append(whole, pad(len(x.Item))...)
	whole = append(whole, x.Tail...)
	r, err := o.register(whole, rdma.RemoteRead)
	if err != nil {
		return err
	}
	o.hdr.Proc = NoMsg
	o.hdr.Lists.Reads = []chunks.ReadSegment{{Segment: segment(r, n)}}
	return nil
}

func (o *outCall) register(b []byte, access rdma.Access) (rdma.Region, error) {
	r, err := o.c.conn.Register(b, access)
	if err == nil {
		o.regions = append(o.regions, r)
	}
	return r, err
}

func segment(r rdma.Region, n int) chunks.Segment {
	return chunks.Segment{Handle: uint32(r.STag()), Length: uint32(n), Offset: r.TO()}
}

// send returns the Send of the call: the transport header right in front of
// the RPC message. An item that travels inline is copied behind it, so that
// the caller has its memory back when Call returns, and need not wait for a
// connection that takes nothing.
func (o *outCall) send() rdma.WR {
	x := o.x
	hdr := o.hdr.AppendTo(o.out.B[:0])
	wr := rdma.WR{Op: rdma.OpSend, Done: o}
	if o.hdr.Proc == NoMsg {
		wr.Data = [][]byte{hdr}
		return wr
	}
	rest := o.msg
	if len(o.hdr.Lists.Reads) == 0 {
		rest = append(rest, x.Item...)
		rest = append(rest, pad(len(x.Item))...)
	}
	rest = append(rest, x.Tail...)
	wr.Data = [][]byte{hdr, rest}
	return wr
}

// Complete is told that the Send is done (rdma.Completer).
func (o *outCall) Complete(rdma.Completion) { o.posted.Release() }

// await waits for the reply.
func (o *outCall) await(ctx context.Context) error {
	select {
	case a := <-o.got:
		o.protect()
		return o.take(a)
	case <-ctx.Done():
		o.protect()
		o.c.forsake(o)
		return context.Cause(ctx)
	}
}

// forsake makes the reply to o, when it comes, free the credit and nothing
// else.
func (c *Client) forsake(o *outCall) {
	c.mu.Lock()
	if c.calls[o.xid] == o {
		c.calls[o.xid] = forsaken
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	if a := <-o.got; a.recv != nil { // it is on its way
		a.recv.Release()
	}
}

// protect takes the call's memory back from the server, before anybody looks
// at it (RFC 8166, Section 4.4.1).
func (o *outCall) protect() {
	for _, r := range o.regions {
		r.Deregister()
	}
	o.regions = nil
}

// end gives the call's buffers back.
func (o *outCall) end() {
	o.protect()
	for _, b := range []*buf.Buf{o.out, o.long, o.reply} {
		if b != nil {
			b.Release()
		}
	}
}
