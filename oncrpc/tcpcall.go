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

	reply Reply
	lent  int64  // octets of its item in that of Server.replies
	head  []byte // memory for reply.Head
	mark  [markLen]byte
	lend  func(n int) *buf.Buf // cl.lendItem, made once
}

func (c *tcpConn) newCall() *tcpCall {
	cl, _ := c.server.calls.Get().(*tcpCall)
	if cl == nil {
		cl = &tcpCall{head: make([]byte, 0, 512)}
		cl.lend = cl.lendItem
	}
	cl.conn = c
	cl.request = Request{Peer: &c.peer, MaxReply: c.in.max}
	cl.reply = Reply{Head: cl.head, Lend: cl.lend}
	return cl
}

// free gives back all that cl holds, and cl itself.
func (cl *tcpCall) free() {
	cl.freeRecord()
	cl.reply.DropItem()
	cl.freeItem()
	if cap(cl.reply.Head) <= keptHead {
		cl.head = cl.reply.Head[:0]
	}
	cl.reply, cl.request = Reply{}, Request{}
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

// lendItem waits until there is memory for a data item of n octets. Calls hold
// it until their replies have been written or given up, which needs no more of
// it, so that the wait ends.
func (cl *tcpCall) lendItem(n int) *buf.Buf {
	cl.freeItem() // a call has one item: two at a time could wait for each other
	if n > smallRecord {
		weight := min(int64(n), partOfConn)
		if cl.conn.memory.replies.Acquire(cl.conn.ctx, weight) == nil {
			cl.lent = weight
		} // else nobody will read the reply
	}
	return buf.Default.Get(n)
}

func (cl *tcpCall) freeItem() {
	if cl.lent > 0 {
		cl.conn.memory.replies.Release(cl.lent)
		cl.lent = 0
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
