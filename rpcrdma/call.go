package rpcrdma

import (
	"encoding/binary"
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// A call is one requester message being processed by the server. At any time a
// single goroutine owns the call: the connection's reader, the goroutine that
// waits for memory, a dispatcher goroutine, or the goroutine that delivers a
// completion.
type call struct {
	conn *conn
	next *call // in a callQueue

	recv *buf.Buf    // the message as received; body aliases it
	hdr  wire.Header // the call's header; once the reply's form is chosen, the reply's
	body []byte      // rest of the message after the header
	plan plan

	pulled      [2]*buf.Buf // buffers for pulled chunks: message, data items
	reserved    int64       // reserved memory in bytes
	inlineBytes int64       // bytes counted against MaxInline
	longLists   bool        // has long chunk lists

	replyBuf *buf.Buf // buffer for the reply's header and head
	req      oncrpc.Request
	rep      oncrpc.Reply

	wrs       []rdma.WR  // posted last
	iov       [][]byte   // their Data slices
	sinks     []readSink // sinks for the RDMA Reads among them
	restParts [][]byte   // parts that go into the Reply chunk

	// Used if the reply's item is in a file mapping:
	pieces   []*mappedPiece
	itemLeft int    // readable item bytes, as far as known
	sentHead []byte // the reply's head, in the buffer that is sent
}

// Completion kinds (rdma.WR.ID).
const (
	idPull uint64 = iota
	idReply
)

// releaseAll releases everything that the call holds, and then the call itself.
func (cl *call) releaseAll() {
	c := cl.conn
	cl.rep.EndTrace()
	cl.releaseArgs()
	cl.rep.DropItem()
	if cl.replyBuf != nil {
		cl.replyBuf.Release()
	}
	cl.releaseMemory(cl.reserved)
	clear(cl.wrs)
	clear(cl.iov)
	clear(cl.sinks)
	clear(cl.restParts)
	*cl = call{
		conn:        c,
		inlineBytes: cl.inlineBytes,
		longLists:   cl.longLists,
		hdr:         wire.Header{XID: cl.hdr.XID, Lists: cl.hdr.Lists},
		plan:        plan{reads: cl.plan.reads[:0], places: cl.plan.places[:0], itemLimits: cl.plan.itemLimits[:0]},
		wrs:         cl.wrs[:0],
		iov:         cl.iov[:0],
		sinks:       cl.sinks[:0],
		pieces:      cl.pieces,
		restParts:   cl.restParts[:0],
	}
	c.endCall(cl)
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

// serve executes and answers a call whose RPC message is complete.
func (cl *call) serve() {
	cl.assembleRequest()
	if !cl.hasSameXID() {
		cl.rejectCall(cl.hdr.Fail("rdma_xid", 0, wire.ErrXID)) // Section 4.5.2
		return
	}
	cl.respond(cl.callHandler())
}

// callHandler calls the handler, and reports whether there is a reply.
func (cl *call) callHandler() (answer bool) {
	c, p := cl.conn, &cl.plan
	cl.req.Peer, cl.req.MaxReply, cl.req.ItemLimits, cl.req.MaxWhole = &c.peer, p.maxReply, p.itemLimits, p.maxReply
	if len(p.itemLimits) > 0 {
		cl.req.MaxReply += p.itemLimits[0]
	}
	cl.replyBuf = buf.Default.Get(p.headerLen + max(p.maxReply, wire.ErrVersLen))
	cl.rep.Head = cl.replyBuf.B[p.headerLen:p.headerLen]
	cl.rep.Mappable = c.reader.mayMap(cl)
	answer = c.srv.Handler.Serve(c.ctx, &cl.req, &cl.rep)
	cl.releaseArgs()
	cl.releaseMemory(cl.reserved - min(cl.reserved, p.replyNeed))
	return answer
}

// respond sends the reply, if there is one.
func (cl *call) respond(answer bool) {
	if !answer {
		cl.conn.repostRecv()
		posted := cl.rep.Posted
		cl.releaseAll()
		callPosted(posted)
		return
	}
	cl.sendReply()
}

// hasSameXID reports whether the XIDs in header and RPC message agree (RFC
// 8166, Section 4.2.1).
func (cl *call) hasSameXID() bool {
	return len(cl.req.Msg) >= 4 && binary.BigEndian.Uint32(cl.req.Msg) == cl.hdr.XID
}

// rejectCall replies to a call that cannot be served with an RDMA_ERROR, or drops it.
func (cl *call) rejectCall(err error) {
	c := cl.conn
	c.srv.log.Debug("call rejected", "peer", &c.peer, "err", err)
	cl.releaseArgs()
	code, answer := answerFor(err)
	c.srv.errors.countError(code, answer)
	if !answer {
		c.repostRecv()
		cl.releaseAll()
		return
	}
	h := &cl.hdr // XID and version are the call's: Section 4.5
	h.Credit, h.Proc, h.Code = c.grantCredits(h.Credit), wire.Error, code
	h.Low, h.High = wire.Version, wire.Version
	if cl.replyBuf == nil {
		cl.replyBuf = buf.Default.Get(wire.ErrVersLen)
	}
	cl.wrs, cl.iov = cl.wrs[:0], cl.iov[:0]
	cl.appendSend(h.AppendTo(cl.replyBuf.B[:0]))
	cl.postWork(idReply)
}

// postWork posts the call's work requests. Only the last one signals
// completion.
func (cl *call) postWork(id uint64) {
	last := &cl.wrs[len(cl.wrs)-1]
	last.Done, last.ID = cl, id
	c, posted := cl.conn, cl.rep.Posted // cl may soon be reused for another call
	c.recordBatchPost(id)
	if err := c.rc.Post(cl.wrs...); err != nil {
		c.recordBatchEnd(cl, id)
		c.abort(fmt.Errorf("%w: %w", errNoReply, err)) // Section 4.5.4
		cl.releaseAll()
	}
	callPosted(posted)
}

// callPosted calls Reply.Posted.
func callPosted(posted func()) {
	if posted != nil {
		posted()
	}
}

// Complete handles the completion of the last posted work (rdma.Completer).
func (cl *call) Complete(done rdma.Completion) {
	if srv := cl.conn.srv; cl.finishWork(done) {
		srv.calls.submit(cl)
	}
}

// CompleteInline is Complete on the reader goroutine (rdma.InlineCompleter). It
// serves the call itself if the reader may serve it, or if another goroutine
// can take over reading, because the pulled data is in the processor's caches.
func (cl *call) CompleteInline(done rdma.Completion) {
	c := cl.conn
	if !cl.finishWork(done) {
		return
	}
	if c.serveAside(cl) {
		return
	}
	if k := c.reader.kindToServe(cl); k != nil {
		c.serveShort(cl, k)
		return
	}
	c.srv.calls.submit(cl)
}

// finishWork records that the last posted work is done, and reports whether the
// call can be served.
func (cl *call) finishWork(done rdma.Completion) bool {
	c := cl.conn
	c.recordBatchEnd(cl, done.ID)
	switch {
	case done.ID == idReply:
		if done.Err != nil {
			cl.recordIfUnreachable(done.Err)
			c.abort(fmt.Errorf("%w: %w", errNoReply, done.Err))
		}
		cl.releaseAll()
	case done.Err != nil:
		cl.recordIfUnreachable(done.Err)
		c.abort(fmt.Errorf("%w: %w", errPull, done.Err))
		cl.releaseAll()
	default:
		return true
	}
	return false
}
