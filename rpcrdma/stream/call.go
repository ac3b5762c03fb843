package stream

import (
	"encoding/binary"
	"math"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A call is an RPC call being relayed through a stream. The stream's lock
// guards it from putCall until done.
type call struct {
	xid, prog, vers, proc uint32

	binding    Binding
	args       []byte // the arguments in req.Msg, without a moved item; they begin at argsOffset
	argsOffset int

	// its record, for the reader
	mark   [markLen]byte
	unread [5][]byte

	// its reply, for the writer
	rep          *oncrpc.Reply
	maxReply     int  // maximum reply length that the requester can accept, in bytes
	procMaxReply int  // maximum reply length for the procedure, in bytes
	hasItem      bool // the reply may contain an item to move
	received     []byte
	replyLen     int // reply length in bytes; received has the first maxReply+1 of them

	replied bool
	done    chan bool // receives one value: whether there is a reply
}

// zeros are an item's padding.
var zeros [3]byte

// buildRecord builds the call's record, a single fragment.
func (cl *call) buildRecord(req *oncrpc.Request) {
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

// readRecord copies the unread part of the record to p.
func (cl *call) readRecord(p []byte) (n int) {
	for i := range cl.unread {
		k := copy(p[n:], cl.unread[i])
		cl.unread[i] = cl.unread[i][k:]
		n += k
	}
	return n
}

// isRead reports whether the complete record has been read.
func (cl *call) isRead() bool {
	for _, part := range cl.unread {
		if len(part) > 0 {
			return false
		}
	}
	return true
}

// completeIfDone completes the call when both its record has been read and its reply has
// been written: until then the stream needs the call's memory.
func (cl *call) completeIfDone() {
	if cl.replied && cl.isRead() {
		cl.done <- true
	}
}

// limitReply computes the maximum reply length.
func (cl *call) limitReply(maxReply int) {
	rest, item := cl.binding.MaxResults(cl.proc, cl.args)
	cl.hasItem = item > 0
	cl.procMaxReply = math.MaxInt
	if rest >= 0 {
		cl.procMaxReply = oncrpc.MaxReplyHeader + rest + item + xdr.Pad(item)
	}
	cl.maxReply = min(maxReply, cl.procMaxReply)
}

// makeReplyBuffer allocates the buffer for a reply with n bytes.
func (cl *call) makeReplyBuffer(n int) {
	if cl.hasItem {
		cl.received = cl.rep.NewItem(min(n, cl.maxReply+1))[:0]
	} else {
		cl.received = cl.rep.Head
	}
}

// appendReply adds reply bytes. It keeps one byte more than allowed, so that an
// excess is detected.
func (cl *call) appendReply(p []byte) {
	cl.replyLen += len(p)
	cl.received = append(cl.received, p[:min(len(p), cl.maxReply+1-len(cl.received))]...)
}

// splitReply splits the received message into the Reply's head, item and tail.
func (cl *call) splitReply() {
	rep, msg := cl.rep, cl.received
	if !cl.hasItem {
		rep.Head = msg
		return
	}
	r := xdr.NewReader(msg)
	start, n := 0, 0
	if oncrpc.ReadReply(&r, cl.xid) == nil {
		start, n = movableResult(cl.binding, cl.proc, msg[r.Offset():])
	}
	if n > 0 {
		start += r.Offset()
		rep.Head = append(rep.Head, msg[:start]...)
	}
	rep.Item.B, rep.Tail = msg[start:start+n], msg[start+n+xdr.Pad(n):]
}
