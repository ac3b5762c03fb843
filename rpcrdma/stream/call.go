package stream

import (
	"encoding/binary"
	"math"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A call is a call on its way through a stream. The stream's lock guards
// it from put until done.
type call struct {
	xid, prog, vers, proc uint32

	binding Binding
	args    []byte // the arguments in req.Msg, without a moved item; they begin at
	argsAt  int

	// its record, for the reader
	mark   [markLen]byte
	unread [5][]byte

	// its reply, for the writer
	rep    *oncrpc.Reply
	most   int  // bytes of the longest reply that the requester can take
	bound  int  // bytes of the longest reply that the procedure can have
	moves  bool // the reply may have an item to move
	got    []byte
	length int // bytes of the reply; got has the first most+1 of them

	replied bool
	done    chan bool // gets one value: whether there is a reply
}

// zeros are the padding of an item.
var zeros [3]byte

// record makes the call's record, a single fragment.
func (cl *call) record(req *oncrpc.Request) {
	item := req.Item
	before, behind := req.Msg, []byte(nil)
	var padding []byte
	if item != nil {
		before, behind = req.Msg[:req.ItemPos], req.Msg[req.ItemPos:]
		padding = zeros[:xdr.Pad(len(item))] // empty if the item includes it
	}
	cl.unread = [...][]byte{cl.mark[:], before, item, padding, behind}
	n := -markLen
	for _, part := range cl.unread {
		n += len(part)
	}
	binary.BigEndian.PutUint32(cl.mark[:], lastFragment|uint32(n))
}

// read copies the unread part of the record to p.
func (cl *call) read(p []byte) (n int) {
	for i := range cl.unread {
		k := copy(p[n:], cl.unread[i])
		cl.unread[i] = cl.unread[i][k:]
		n += k
	}
	return n
}

// isRead reports whether the whole record has been read.
func (cl *call) isRead() bool {
	for _, part := range cl.unread {
		if len(part) > 0 {
			return false
		}
	}
	return true
}

// tell completes the call when both its record has been read and its reply has
// been written: until then the stream needs the call's memory.
func (cl *call) tell() {
	if cl.replied && cl.isRead() {
		cl.done <- true
	}
}

// limit computes how long the reply may be.
func (cl *call) limit(maxReply int) {
	rest, item := cl.binding.MaxResults(cl.proc, cl.args)
	cl.moves = item > 0
	cl.bound = math.MaxInt
	if rest >= 0 {
		cl.bound = oncrpc.MaxReplyHeader + rest + item + xdr.Pad(item)
	}
	cl.most = min(maxReply, cl.bound)
}

// expect makes room for a reply of n bytes.
func (cl *call) expect(n int) {
	if cl.moves {
		cl.got = cl.rep.NewItem(min(n, cl.most+1))[:0]
	} else {
		cl.got = cl.rep.Head
	}
}

// add takes bytes of the reply. It keeps one byte more than allowed, as
// evidence of the excess.
func (cl *call) add(p []byte) {
	cl.length += len(p)
	cl.got = append(cl.got, p[:min(len(p), cl.most+1-len(cl.got))]...)
}

// takeApart splits the received message into the Reply's head, item and tail.
func (cl *call) takeApart() {
	rep, msg := cl.rep, cl.got
	if !cl.moves {
		rep.Head = msg
		return
	}
	r := xdr.NewReader(msg)
	start, n := 0, 0
	if oncrpc.ReadReply(&r, cl.xid) == nil {
		start, n = movable(cl.binding, cl.proc, msg[r.Offset():])
	}
	if n > 0 {
		start += r.Offset()
		rep.Head = append(rep.Head, msg[:start]...)
	}
	rep.Item.B, rep.Tail = msg[start:start+n], msg[start+n+xdr.Pad(n):]
}
