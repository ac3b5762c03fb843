package oncrpc

import (
	"encoding/binary"
	"net"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A tcpCall is one call on a connection, from the receipt of its record until its reply
// has been written. It is recycled with its reply's memory.
type tcpCall struct {
	conn *tcpConn

	request      Request
	record       *buf.Buf      // the request's memory; nil after the call was served
	reserved     int64         // bytes reserved in the connection's part of Server.requestMemory
	counted      bool          // in the party's part of Server.callMemory
	keepsTurn    bool          // its goroutine keeps the connection's turn to read, however long it takes
	turnNumber   uint64        // or 0; its goroutine has the turn unless it is relieved (relief.Reader)
	releasedSlot bool          // by stepAside
	reverse      *tcpReverse   // if not nil, a call to the client, with the message in reply
	written      chan struct{} // if not nil, closed when the reply was written

	reply         Reply
	replyReserved int64    // bytes reserved in Server.replyMemory for its item or head
	shortHead     []byte   // memory for a short reply.Head
	headBuffer    *buf.Buf // memory for a long reply.Head, or nil
	mark          [markLen]byte
	lendItemFunc  func(n int) *buf.Buf // method value lendItem, bound once
	lendMoreFunc  func(n int) *buf.Buf // method value lendMore
	holdHeadFunc  func(n int)          // method value holdHead
	stepAsideFunc func()               // method value stepAside
}

func (c *tcpConn) newCall() *tcpCall {
	cl, _ := c.server.callPool.Get().(*tcpCall)
	if cl == nil {
		cl = &tcpCall{shortHead: make([]byte, 0, 512)}
		cl.lendItemFunc, cl.lendMoreFunc, cl.holdHeadFunc, cl.stepAsideFunc = cl.lendItem, cl.lendMore, cl.holdHead, cl.stepAside
	}
	cl.conn = c
	cl.request = Request{Peer: c.callPeer, MaxReply: c.in.max, MaxWhole: c.in.max}
	cl.reply = Reply{Head: cl.shortHead, Lend: cl.lendItemFunc, LendMore: cl.lendMoreFunc, Hold: cl.holdHeadFunc, Aside: cl.stepAsideFunc, Mappable: c.sendsMapped()}
	if trace := c.server.Trace; trace != nil {
		cl.reply.Trace = trace()
	}
	return cl
}

// recycle releases everything that cl holds, and returns cl to the pool.
func (cl *tcpCall) recycle() {
	cl.reply.EndTrace()
	cl.freeRecord()
	cl.reply.DropItem()
	if cl.headBuffer == nil && cap(cl.reply.Head) <= smallRecord {
		cl.shortHead = cl.reply.Head[:0]
	}
	cl.reply, cl.request = Reply{}, Request{}
	cl.freeReplyMemory()
	if cl.counted {
		cl.conn.memory.calls.Release(callCost)
	}
	cl.counted, cl.keepsTurn, cl.turnNumber, cl.releasedSlot, cl.reverse, cl.written = false, false, 0, false, nil, nil
	s := cl.conn.server
	cl.conn = nil
	s.callPool.Put(cl)
}

// freeRecord releases the request's memory.
func (cl *tcpCall) freeRecord() {
	if cl.record != nil {
		cl.record.Release()
		cl.record, cl.request.Msg = nil, nil
	}
	if cl.reserved > 0 {
		cl.conn.memory.requests.Release(cl.reserved)
		cl.reserved = 0
	}
}

// tryReserve reserves callCost for the call if the connection has more than freeCalls in
// flight. It returns false if that memory is exhausted.
func (cl *tcpCall) tryReserve() bool {
	if cl.conn.inFlight.Load() <= freeCalls {
		return true
	}
	cl.counted = cl.conn.memory.calls.TryAcquire(callCost)
	return cl.counted
}

// stepAside releases the call's slot and its turn to read, so that the
// connection can read further calls. Programs bound the calls that step aside.
func (cl *tcpCall) stepAside() {
	if !cl.releasedSlot {
		cl.releasedSlot = true
		<-cl.conn.slots
	}
	c := cl.conn
	if cl.keepsTurn || cl.turnNumber != 0 && c.turn.End(cl.turnNumber) {
		c.server.tasks.Go(c)
	}
	cl.keepsTurn, cl.turnNumber = false, 0
}

// lendItem waits for memory for a data item with n bytes. Calls hold such memory until
// their replies have been written or given up. That needs no more memory, so the wait
// ends.
func (cl *tcpCall) lendItem(n int) *buf.Buf {
	need := int64(0)
	if n > smallRecord {
		need = int64(buf.Size(n))
	}
	if cl.headBuffer != nil && len(cl.reply.Head) > smallRecord { // the handler has reserved memory, and used it
		need += int64(cap(cl.reply.Head))
		cl.releaseReplyMemory()
	} else {
		cl.freeReplyMemory()
	}
	if need > 0 {
		cl.acquireReplyMemory(need) // one wait per call: two calls that wait twice could wait for each other
	}
	return buf.Default.Get(n)
}

// lendMore reserves memory for a further data item with n bytes, if that is free.
func (cl *tcpCall) lendMore(n int) *buf.Buf {
	size := int64(buf.Size(n))
	if !cl.conn.memory.replies.TryAcquire(size) {
		return nil
	}
	cl.replyReserved += size
	return buf.Default.Get(n)
}

// holdHead waits for memory for a head with n bytes of results, and moves the head to a
// buffer of that size.
func (cl *tcpCall) holdHead(n int) {
	cl.freeReplyMemory()
	if n <= smallRecord && len(cl.reply.Head) <= smallRecord {
		return
	}
	n += len(cl.reply.Head)
	cl.acquireReplyMemory(int64(buf.Size(n)))
	cl.moveHead(n)
}

// moveHead moves the head to an n-byte buffer.
func (cl *tcpCall) moveHead(n int) {
	buffer := buf.Default.Get(n)
	cl.reply.Head = append(buffer.B[:0], cl.reply.Head...)
	cl.freeHeadBuffer()
	cl.headBuffer = buffer
}

// acquireReplyMemory waits for n bytes, or for connMemoryLimit if n is larger.
func (cl *tcpCall) acquireReplyMemory(n int64) {
	n = min(n, connMemoryLimit)
	if cl.conn.memory.replies.Acquire(cl.conn.ctx, n) == nil {
		cl.replyReserved = n
	} // an error means that the connection has ended
}

// releaseUnused releases the acquired memory that the finished reply does not
// need.
func (cl *tcpCall) releaseUnused() {
	if cl.replyReserved == 0 {
		return
	}
	if n := len(cl.reply.Head); cl.headBuffer != nil && 2*buf.Size(n) <= cap(cl.headBuffer.B) {
		cl.moveHead(n)
	}
	taken := int64(0)
	if n := cap(cl.reply.Head); n > smallRecord {
		taken += int64(n)
	}
	if cl.reply.Item != nil && cl.reply.Cut == nil {
		taken += int64(cap(cl.reply.Item.B))
	}
	for i := range cl.reply.More {
		taken += int64(cap(cl.reply.More[i].Item.B))
	}
	if more := cl.replyReserved - taken; more > 0 {
		cl.conn.memory.replies.Release(more)
		cl.replyReserved = taken
	}
}

func (cl *tcpCall) freeReplyMemory() {
	if cl.headBuffer != nil {
		cl.reply.Head = append(cl.shortHead[:0], cl.reply.Head...)
		cl.freeHeadBuffer()
	}
	cl.releaseReplyMemory()
}

func (cl *tcpCall) releaseReplyMemory() {
	if cl.replyReserved > 0 {
		cl.conn.memory.replies.Release(cl.replyReserved)
		cl.replyReserved = 0
	}
}

func (cl *tcpCall) freeHeadBuffer() {
	if cl.headBuffer != nil {
		cl.headBuffer.Release()
		cl.headBuffer = nil
	}
}

// appendRecord appends the reply's record, as one fragment, to v.
func (cl *tcpCall) appendRecord(v net.Buffers) net.Buffers {
	r := &cl.reply
	binary.BigEndian.PutUint32(cl.mark[:], lastFrag|uint32(r.Len()))
	return r.AppendBody(append(v, cl.mark[:], r.Head))
}

var padding [3]byte
