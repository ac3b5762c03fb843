package oncrpc

import (
	"encoding/binary"
	"net"

	"github.com/nfsrdma/nfsrdma/buf"
)

// A tcpCall is one call of a connection, from the receipt of its record until
// its reply has been written. It is recycled with its reply's memory.
type tcpCall struct {
	conn *tcpConn

	request  Request
	record   *buf.Buf      // the request's memory; nil after the call was served
	reserved int64         // bytes reserved in the connection's part of Server.requests
	counted  bool          // in the party's part of the memory of calls
	keeps    bool          // its goroutine keeps the connection's turn to read, however long it takes
	turn     uint64        // or 0: its goroutine has the turn unless it is relieved (relief.Reader)
	aside    bool          // it has released its slot
	reverse  *tcpReverse   // or nil: it is a call to the client, with the message in reply
	written  chan struct{} // or nil: closed when the reply was written

	reply Reply
	lent  int64    // bytes reserved in Server.replies for its item or head
	head  []byte   // memory for a short reply.Head
	room  *buf.Buf // memory for a long reply.Head, or nil
	mark  [markLen]byte
	lend  func(n int) *buf.Buf // method value of lendItem, made once
	more  func(n int) *buf.Buf // the same of lendMore
	hold  func(n int)          // the same of holdHead
	step  func()               // the same of stepAside
}

func (c *tcpConn) newCall() *tcpCall {
	cl, _ := c.server.calls.Get().(*tcpCall)
	if cl == nil {
		cl = &tcpCall{head: make([]byte, 0, 512)}
		cl.lend, cl.more, cl.hold, cl.step = cl.lendItem, cl.lendMore, cl.holdHead, cl.stepAside
	}
	cl.conn = c
	cl.request = Request{Peer: c.caller, MaxReply: c.in.max, MaxWhole: c.in.max}
	cl.reply = Reply{Head: cl.head, Lend: cl.lend, LendMore: cl.more, Hold: cl.hold, Aside: cl.step, Mappable: c.sendsMapped()}
	if trace := c.server.Trace; trace != nil {
		cl.reply.Trace = trace()
	}
	return cl
}

// free releases everything that cl holds, and recycles cl.
func (cl *tcpCall) free() {
	cl.reply.EndTrace()
	cl.freeRecord()
	cl.reply.DropItem()
	if cl.room == nil && cap(cl.reply.Head) <= smallRecord {
		cl.head = cl.reply.Head[:0]
	}
	cl.reply, cl.request = Reply{}, Request{}
	cl.freeLent()
	if cl.counted {
		cl.conn.memory.calls.Release(callCost)
	}
	cl.counted, cl.keeps, cl.turn, cl.aside, cl.reverse, cl.written = false, false, 0, false, nil, nil
	s := cl.conn.server
	cl.conn = nil
	s.calls.Put(cl)
}

// freeRecord releases the memory of the request.
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

// count counts the call in the memory of calls. It returns false if the
// connection has more than freeCalls under way and there is no room for a
// further call.
func (cl *tcpCall) count() bool {
	if cl.conn.underWay.Load() <= freeCalls {
		return true
	}
	cl.counted = cl.conn.memory.calls.TryAcquire(callCost)
	return cl.counted
}

// stepAside releases the call's slot and its turn to read, so that the
// connection can read further calls. Programs bound the calls that step aside.
func (cl *tcpCall) stepAside() {
	if !cl.aside {
		cl.aside = true
		<-cl.conn.slots
	}
	c := cl.conn
	if cl.keeps || cl.turn != 0 && c.turn.End(cl.turn) {
		c.server.tasks.Go(c)
	}
	cl.keeps, cl.turn = false, 0
}

// lendItem waits for memory for a data item of n bytes. Calls hold such memory
// until their replies have been written or given up. That needs no more memory,
// so the wait ends.
func (cl *tcpCall) lendItem(n int) *buf.Buf {
	need := int64(0)
	if n > smallRecord {
		need = int64(buf.Size(n))
	}
	if cl.room != nil && len(cl.reply.Head) > smallRecord { // the handler has reserved memory, and used it
		need += int64(cap(cl.reply.Head))
		cl.releaseLent()
	} else {
		cl.freeLent()
	}
	if need > 0 {
		cl.acquire(need) // one wait per call: two calls that wait twice could wait for each other
	}
	return buf.Default.Get(n)
}

// lendMore takes memory for a further data item of n bytes, if that is free.
func (cl *tcpCall) lendMore(n int) *buf.Buf {
	size := int64(buf.Size(n))
	if !cl.conn.memory.replies.TryAcquire(size) {
		return nil
	}
	cl.lent += size
	return buf.Default.Get(n)
}

// holdHead waits for memory for a head with results of n bytes, as lendItem
// does for an item, and moves the head to memory of that size.
func (cl *tcpCall) holdHead(n int) {
	cl.freeLent()
	if n <= smallRecord && len(cl.reply.Head) <= smallRecord {
		return
	}
	n += len(cl.reply.Head)
	cl.acquire(int64(buf.Size(n)))
	cl.moveHead(n)
}

// moveHead moves the head to a buffer of n bytes.
func (cl *tcpCall) moveHead(n int) {
	room := buf.Default.Get(n)
	cl.reply.Head = append(room.B[:0], cl.reply.Head...)
	cl.freeRoom()
	cl.room = room
}

// acquire waits for n bytes, or for partOfConn if n is larger.
func (cl *tcpCall) acquire(n int64) {
	n = min(n, partOfConn)
	if cl.conn.memory.replies.Acquire(cl.conn.ctx, n) == nil {
		cl.lent = n
	} // an error means that the connection has ended
}

// releaseUnused releases the acquired memory that the finished reply does not
// need.
func (cl *tcpCall) releaseUnused() {
	if cl.lent == 0 {
		return
	}
	if n := len(cl.reply.Head); cl.room != nil && 2*buf.Size(n) <= cap(cl.room.B) {
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
	if more := cl.lent - taken; more > 0 {
		cl.conn.memory.replies.Release(more)
		cl.lent = taken
	}
}

func (cl *tcpCall) freeLent() {
	if cl.room != nil {
		cl.reply.Head = append(cl.head[:0], cl.reply.Head...)
		cl.freeRoom()
	}
	cl.releaseLent()
}

func (cl *tcpCall) releaseLent() {
	if cl.lent > 0 {
		cl.conn.memory.replies.Release(cl.lent)
		cl.lent = 0
	}
}

func (cl *tcpCall) freeRoom() {
	if cl.room != nil {
		cl.room.Release()
		cl.room = nil
	}
}

// appendTo appends the parts of the reply's record, one fragment, to v.
func (cl *tcpCall) appendTo(v net.Buffers) net.Buffers {
	r := &cl.reply
	binary.BigEndian.PutUint32(cl.mark[:], lastFrag|uint32(r.Len()))
	return r.AppendBody(append(v, cl.mark[:], r.Head))
}

var padding [3]byte
