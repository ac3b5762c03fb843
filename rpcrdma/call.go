package rpcrdma

import (
	"encoding/binary"
	"fmt"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// A call is one message of a requester on its way through the server. At any
// time a single goroutine owns the call: the connection's reader, the goroutine
// that waits for memory, a goroutine of the dispatcher, or the goroutine that
// delivers a completion.
type call struct {
	conn *conn
	next *call // in a callQueue

	recv *buf.Buf    // the message as received; body aliases it
	hdr  wire.Header // the call's; from the choice of the reply's form on, the reply's
	body []byte      // rest of the message behind the header
	plan plan

	pulled [2]*buf.Buf // buffers for the chunks: message, data items
	held   int64       // bytes of memory reserved
	inline int64       // bytes counted against MaxInline
	long   bool        // has long chunk lists

	out *buf.Buf // the reply's header and head
	req oncrpc.Request
	rep oncrpc.Reply

	wrs   []rdma.WR // posted last
	iov   [][]byte  // their Data
	sinks []sink    // the memory of the RDMA Reads among them
	rest  [][]byte  // what goes into the Reply chunk

	// Used if the reply's item is in a mapping:
	pieces []*piece
	left   int    // bytes of the item, as far as is known
	head   []byte // the reply's head, in the buffer that is sent
}

// Kinds of completions (rdma.WR.ID).
const (
	idPull uint64 = iota
	idReply
)

// end releases everything that the call holds, and then the call itself.
func (cl *call) end() {
	c := cl.conn
	cl.rep.EndTrace()
	cl.releaseArgs()
	cl.rep.DropItem()
	if cl.out != nil {
		cl.out.Release()
	}
	cl.unreserve(cl.held)
	clear(cl.wrs)
	clear(cl.iov)
	clear(cl.sinks)
	clear(cl.rest)
	*cl = call{
		conn:   c,
		inline: cl.inline,
		long:   cl.long,
		hdr:    wire.Header{XID: cl.hdr.XID, Lists: cl.hdr.Lists},
		plan:   plan{reads: cl.plan.reads[:0], places: cl.plan.places[:0], rooms: cl.plan.rooms[:0]},
		wrs:    cl.wrs[:0],
		iov:    cl.iov[:0],
		sinks:  cl.sinks[:0],
		pieces: cl.pieces,
		rest:   cl.rest[:0],
	}
	c.end(cl)
}

// releaseArgs releases the memory that the request's slices alias.
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

// Run serves calls until there are no more (workpool.Task).
func (cl *call) Run() { cl.conn.srv.calls.run(cl, nil) }

// serve answers a call whose RPC message is complete.
func (cl *call) serve() {
	cl.assemble()
	if !cl.sameXID() {
		cl.refuse(cl.hdr.Fail("rdma_xid", 0, wire.ErrXID)) // Section 4.5.2
		return
	}
	cl.respond(cl.execute())
}

// execute calls the handler for the reply, and reports whether there is one.
func (cl *call) execute() (answer bool) {
	c, p := cl.conn, &cl.plan
	cl.req.Peer, cl.req.MaxReply, cl.req.ItemRooms, cl.req.MaxWhole = &c.peer, p.room, p.rooms, p.room
	if len(p.rooms) > 0 {
		cl.req.MaxReply += p.rooms[0]
	}
	cl.out = buf.Default.Get(p.headerLen + max(p.room, wire.ErrVersLen))
	cl.rep.Head = cl.out.B[p.headerLen:p.headerLen]
	cl.rep.Mappable = c.reader.mayMap(cl)
	answer = c.srv.Handler.Serve(c.ctx, &cl.req, &cl.rep)
	cl.releaseArgs()
	cl.unreserve(cl.held - min(cl.held, p.replyNeed))
	return answer
}

// respond sends the reply, if there is one.
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

// sameXID reports whether the XIDs of header and RPC message agree (RFC 8166,
// Section 4.2.1).
func (cl *call) sameXID() bool {
	return len(cl.req.Msg) >= 4 && binary.BigEndian.Uint32(cl.req.Msg) == cl.hdr.XID
}

// refuse answers a call that cannot be served with an RDMA_ERROR, or drops the
// call.
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

// post posts the call's work requests. The completion of the last one stands
// for all.
func (cl *call) post(id uint64) {
	last := &cl.wrs[len(cl.wrs)-1]
	last.Done, last.ID = cl, id
	c, posted := cl.conn, cl.rep.Posted // cl may soon be reused for another call
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

// Complete handles the completion of the work posted last (rdma.Completer).
func (cl *call) Complete(done rdma.Completion) {
	if srv := cl.conn.srv; cl.completed(done) {
		srv.calls.submit(cl)
	}
}

// CompleteInline is Complete on the reader goroutine (rdma.InlineCompleter). It
// serves the call itself if the reader takes it, or if another goroutine can
// read on: the pulled data is in the processor's caches.
func (cl *call) CompleteInline(done rdma.Completion) {
	c := cl.conn
	if !cl.completed(done) {
		return
	}
	if c.serveAside(cl) {
		return
	}
	if k := c.reader.takes(cl); k != nil {
		c.serveShort(cl, k)
		return
	}
	c.srv.calls.submit(cl)
}

// completed notes that the work posted last is done, and reports whether the
// call can be served.
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
