package rpcrdma

import (
	"encoding/binary"
	"runtime"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/relief"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// The goroutine that reads a connection serves its short calls: handing a call
// to another goroutine costs more than answering it, and the answers to calls
// that arrive together leave some at a time (see package iwarp).
//
//	reader ── Receive ─▶ short? ─▶ Handler ─▶ Post ─▶ reads on
//	                       │ no       │ takes long, says the watchdog
//	                       ▼          ▼
//	                   dispatcher   another goroutine reads on; this one is
//	                                the dispatcher's when it has answered
//
// The reader that has placed the chunks of a call serves that call too: the
// bytes are still in its processor's caches.
//
// A call cannot be known to be short: it may have to wait for a disk, or for
// ever. The dispatcher therefore serves the calls of a kind that was slow
// lately, and the watchdog relieves a reader that does not come back.
//
// Inside of TLS, reading is decrypting, and a call for which much was pulled holds
// that up: the reader hands over the reading at once, and serves the call.

// A reader is the goroutine that reads a connection. That goroutine owns the
// fields, unless a field's comment says otherwise.
type reader struct {
	relief rdma.ReaderHandoff // nil: the reader serves no calls
	mapped bool               // the connection sends out of mappings
	turn   relief.Reader
	kinds  relief.Kinds // one procedure each, or one Server.Kind of a procedure
}

// init queries the abilities of the connection below.
func (r *reader) init(c rdma.Conn, serves bool) {
	if serves {
		r.relief, _ = c.(rdma.ReaderHandoff)
	}
	m, ok := c.(rdma.MappedSender)
	r.mapped = ok && m.SendsMapped()
}

// takes returns the kind of a call that the reader should serve, or nil.
func (r *reader) takes(cl *call) *relief.Kind {
	p := &cl.plan
	if r.relief == nil || len(cl.body) < rpcmsg.CallHeaderLen { // the call is incomplete or unchecked
		return nil
	}
	var alike, form uint32
	switch {
	case cl.mayBeSealed() && max(p.room, len(cl.body)) > shortSealed:
		return nil
	case p.replyNeed > shortReply && !r.mayMap(cl):
		return nil
	case len(p.reads) > 0:
		form = 1
	case p.replyNeed > shortReply:
		form = 2
	}
	prog, proc := binary.BigEndian.Uint32(cl.body[12:]), binary.BigEndian.Uint32(cl.body[20:])
	if kind := cl.conn.srv.Kind; kind != nil {
		alike = kind(cl.body)
	}
	k := r.kinds.Of(prog, proc, alike, form)
	if !k.Takes() {
		return nil
	}
	return k
}

// mayBeSealed reports whether the call's arguments and results may be signed or
// encrypted, which is unknown while the message is yet to be read.
func (cl *call) mayBeSealed() bool {
	return len(cl.body) < rpcmsg.CallHeaderLen || binary.BigEndian.Uint32(cl.body[24:]) == rpcmsg.AuthGSS // Section 9 of RFC 5531
}

// serveShort answers a call that the reader takes.
func (c *conn) serveShort(cl *call, k *relief.Kind) {
	r, w := &c.reader, &c.srv.watchdog
	n := r.turn.Begin(w, k)
	if n%relief.MaxTurn == 0 {
		runtime.Gosched() // other connections' readers may want to run
	}
	cl.assemble()
	slow := w.Slow + time.Duration(cl.plan.pullSize)*slowByte
	start := time.Now()
	answer := cl.execute()
	took := time.Since(start)
	cl.respond(answer)
	if r.turn.End(n) {
		k.Note(took > slow)
		return
	}
	c.srv.calls.run(nil, c.party.Own.queue)
}

// relieve makes another goroutine read, and the reader the dispatcher's when it has
// answered its call.
func (c *conn) relieve() {
	c.srv.calls.adopt(c.party.Own.queue)
	c.reader.relief.HandOffReader()
}

// serveAside answers a call for which much was pulled inside of TLS, while
// another goroutine reads on. It returns false if the call is not such a call,
// or must wait its turn.
func (c *conn) serveAside(cl *call) bool {
	r, q := &c.reader, cl.queue()
	if c.peer.Security == nil || r.relief == nil || cl.plan.pullSize < minAside || !c.srv.calls.tryAdopt(q) {
		return false
	}
	r.relief.HandOffReader()
	cl.serve()
	c.srv.calls.run(nil, q)
	return true
}
