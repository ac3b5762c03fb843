package oncrpc

import (
	"encoding/binary"
	"net"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A tcpCall is one call of a connection, from its record's receipt until its
// reply has been written. It is used again and keeps its reply's memory.
type tcpCall struct {
	conn *tcpConn

	request  Request
	record   *buf.Buf // the request's memory; nil once it has been served
	reserved int64    // octets of it of the connection's part of Server.requests
	counted  bool     // in the party's part of the memory of calls
	keeps    bool     // its goroutine has the connection's turn to read
	aside    bool     // it has none of the connection's slots

	reply Reply
	lent  int64    // octets of its item or its head in that of Server.replies
	head  []byte   // memory for reply.Head, as long as that is short
	room  *buf.Buf // that for a long one, or nil
	mark  [markLen]byte
	lend  func(n int) *buf.Buf // cl.lendItem, made once, as are
	hold  func(n int)          // cl.holdHead, and
	step  func()               // cl.stepAside
}

func (c *tcpConn) newCall() *tcpCall {
	cl, _ := c.server.calls.Get().(*tcpCall)
	if cl == nil {
		cl = &tcpCall{head: make([]byte, 0, 512)}
		cl.lend, cl.hold, cl.step = cl.lendItem, cl.holdHead, cl.stepAside
	}
	cl.conn = c
	cl.request = Request{Peer: &c.peer, MaxReply: c.in.max}
	cl.reply = Reply{Head: cl.head, Lend: cl.lend, Hold: cl.hold, Aside: cl.step}
	return cl
}

// free gives back all that cl holds, and cl itself.
func (cl *tcpCall) free() {
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
	cl.counted, cl.keeps, cl.aside = false, false, false
	s := cl.conn.server
	cl.conn = nil
	s.calls.Put(cl)
}

// freeRecord gives back the memory of the request.
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

// count counts the call, if there are others of its connection and there is room for
// one more.
func (cl *tcpCall) count() bool {
	if cl.conn.underWay.Load() <= freeCalls {
		return true
	}
	cl.counted = cl.conn.memory.calls.TryAcquire(callCost)
	return cl.counted
}

// stepAside gives up what keeps further calls of the connection from being read: the
// turn and a slot. Programs bound the calls that do so.
func (cl *tcpCall) stepAside() {
	if !cl.aside {
		cl.aside = true
		<-cl.conn.slots
	}
	if cl.keeps {
		cl.keeps = false
		cl.conn.server.tasks.Go(cl.conn)
	}
}

// lendItem waits until there is memory for a data item of n octets. Calls hold
// it until their replies have been written or given up, which needs no more of
// it, so that the wait ends.
func (cl *tcpCall) lendItem(n int) *buf.Buf {
	cl.freeLent() // a call has one item: two at a time could wait for each other
	if n > smallRecord {
		cl.acquire(int64(buf.Size(n)))
	}
	return buf.Default.Get(n)
}

// holdHead waits until there is memory for a head with results of n bytes, as
// lendItem does for an item, and gives the head all of it.
func (cl *tcpCall) holdHead(n int) {
	cl.freeLent()
	if n <= smallRecord {
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

// acquire waits for n bytes, or for what a connection may have.
func (cl *tcpCall) acquire(n int64) {
	n = min(n, partOfConn)
	if cl.conn.memory.replies.Acquire(cl.conn.ctx, n) == nil {
		cl.lent = n
	} // else nobody will read the reply
}

// releaseUnused gives back what the reply that has been made does not take of what was
// acquired for it.
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
	if cl.reply.Item != nil {
		taken += int64(cap(cl.reply.Item.B))
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
	v = append(v, cl.mark[:], r.Head)
	if r.Item != nil && len(r.Item.B) > 0 {
		v = append(v, r.Item.B)
		if pad := xdr.Pad(len(r.Item.B)); pad > 0 {
			v = append(v, padding[:pad])
		}
	}
	if len(r.Tail) > 0 {
		v = append(v, r.Tail)
	}
	return v
}

var padding [3]byte
