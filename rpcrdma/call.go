package rpcrdma

import (
	"encoding/binary"
	"fmt"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// A call is one message of a requester on its way through the server. One
// goroutine has it at a time: the connection's reader, the one that waits for
// memory, one of the dispatcher's, or whichever tells it of a completion.
type call struct {
	conn *conn
	next *call // in a callQueue

	recv *buf.Buf    // the message as received; body aliases it
	hdr  wire.Header // from the reply's form on, that of the reply
	body []byte      // what follows the header
	plan plan

	pulled [2]*buf.Buf // what the chunks are read into: message, data items
	held   int64       // octets of memory reserved
	inline int64       // octets counted beside
	long   bool        // its chunk lists are

	out *buf.Buf // the reply's header and head
	req oncrpc.Request
	rep oncrpc.Reply

	wrs   []rdma.WR // posted last,
	iov   [][]byte  // their Data, and
	sinks []sink    // the memory of the RDMA Reads among them

	// Where the reply's item is in a mapping:
	pieces []*piece
	left   int    // octets of the item, as far as is known
	head   []byte // the reply's, where it is sent from
}

// What a completion belongs to (rdma.WR.ID).
const (
	idPull uint64 = iota
	idReply
)

// end gives back everything that the call holds, itself included.
func (cl *call) end() {
	c := cl.conn
	cl.releaseArgs()
	cl.rep.DropItem()
	if cl.out != nil {
		cl.out.Release()
	}
	cl.unreserve(cl.held)
	clear(cl.wrs)
	clear(cl.iov)
	clear(cl.sinks)
	*cl = call{
		conn:   c,
		inline: cl.inline,
		long:   cl.long,
		hdr:    wire.Header{XID: cl.hdr.XID, Lists: cl.hdr.Lists},
		plan:   plan{reads: cl.plan.reads[:0], places: cl.plan.places[:0]},
		wrs:    cl.wrs[:0],
		iov:    cl.iov[:0],
		sinks:  cl.sinks[:0],
		pieces: cl.pieces,
	}
	c.end(cl)
}

// releaseArgs gives back what the request's slices alias.
func (cl *call) releaseArgs() {
	if cl.recv != nil {
		cl.recv.Release()
		cl.recv = nil
	}
	for i, b := range cl.pulled {
		if b != nil {
			b.Release()
			cl.pulled[i] = nil
		}
	}
	cl.req, cl.body = oncrpc.Request{}, nil
}

// Run serves calls for as long as there are any (workpool.Task).
func (cl *call) Run() { cl.conn.srv.calls.run(cl, nil) }

// serve has a complete RPC message answered.
func (cl *call) serve() {
	cl.assemble()
	if !cl.sameXID() {
		cl.refuse(cl.hdr.Fail("rdma_xid", 0, wire.ErrXID)) // Section 4.5.2
		return
	}
	cl.respond(cl.execute())
}

// execute has the handler make the reply, and reports whether there is one.
func (cl *call) execute() (answer bool) {
	c, p := cl.conn, &cl.plan
	cl.req.Peer, cl.req.MaxReply = &c.peer, p.room+p.itemRoom
	cl.out = buf.Default.Get(p.headerLen + max(p.room, wire.ErrVersLen))
	cl.rep.Head = cl.out.B[p.headerLen:p.headerLen]
	cl.rep.Mappable = c.reader.mayMap(cl)
	answer = c.srv.Handler.Serve(c.ctx, &cl.req, &cl.rep)
	cl.releaseArgs()
	cl.unreserve(cl.held - min(cl.held, p.replyNeed))
	return answer
}

// respond sends the reply, if there is to be one.
func (cl *call) respond(answer bool) {
	if !answer {
		cl.conn.giveBack()
		posted := cl.rep.Posted
		cl.end()
		tell(posted)
		return
	}
	cl.reply()
}

// sameXID tells whether header and RPC message agree (RFC 8166, Section
// 4.2.1).
func (cl *call) sameXID() bool {
	return len(cl.req.Msg) >= 4 && binary.BigEndian.Uint32(cl.req.Msg) == cl.hdr.XID
}

// refuse answers a call that cannot be served with an RDMA_ERROR, or drops it.
func (cl *call) refuse(err error) {
	c := cl.conn
	c.srv.log.Debug("call refused", "peer", &c.peer, "err", err)
	cl.releaseArgs()
	code, answer := answerFor(err)
	c.srv.errors.add(code, answer)
	if !answer {
		c.giveBack()
		cl.end()
		return
	}
	h := &cl.hdr // XID and version are those of the call: Section 4.5
	h.Credit, h.Proc, h.Code = c.grant(h.Credit), wire.Error, code
	h.Low, h.High = wire.Version, wire.Version
	if cl.out == nil {
		cl.out = buf.Default.Get(wire.ErrVersLen)
	}
	cl.wrs, cl.iov = cl.wrs[:0], cl.iov[:0]
	cl.send(h.AppendTo(cl.out.B[:0]))
	cl.post(idReply)
}

// post posts the call's work requests, whose last one tells of the completion
// of all.
func (cl *call) post(id uint64) {
	last := &cl.wrs[len(cl.wrs)-1]
	last.Done, last.ID = cl, id
	c, posted := cl.conn, cl.rep.Posted // the call may soon be another's
	c.posting(id)
	if err := c.rc.Post(cl.wrs...); err != nil {
		c.completed(cl, id)
		c.abort(fmt.Errorf("%w: %w", errNoReply, err)) // Section 4.5.4
		cl.end()
	}
	tell(posted)
}

// tell calls Reply.Posted.
func tell(posted func()) {
	if posted != nil {
		posted()
	}
}

// Complete is told that the work posted last is done (rdma.Completer).
func (cl *call) Complete(done rdma.Completion) {
	if srv := cl.conn.srv; cl.completed(done) {
		srv.calls.submit(cl)
	}
}

// CompleteInline is Complete for the reader (rdma.InlineCompleter). It serves the
// call itself, if it takes it: what was pulled is in its processor's caches.
func (cl *call) CompleteInline(done rdma.Completion) {
	c := cl.conn
	if !cl.completed(done) {
		return
	}
	if k := c.reader.takes(cl); k != nil {
		c.serveShort(cl, k)
		return
	}
	c.srv.calls.submit(cl)
}

// completed notes that the work posted last is done, and reports whether the call
// can be served.
func (cl *call) completed(done rdma.Completion) bool {
	c := cl.conn
	c.completed(cl, done.ID)
	switch {
	case done.ID == idReply:
		if done.Err != nil {
			cl.blame(done.Err)
			c.abort(fmt.Errorf("%w: %w", errNoReply, done.Err))
		}
		cl.end()
	case done.Err != nil:
		cl.blame(done.Err)
		c.abort(fmt.Errorf("%w: %w", errPull, done.Err))
		cl.end()
	default:
		return true
	}
	return false
}
