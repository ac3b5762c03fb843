package rpcrdma

import (
	"encoding/binary"
	"runtime"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/relief"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// The goroutine that reads a connection serves its short calls: passing a call
// to another goroutine costs more than serving it, and the replies to calls
// that arrive together are sent in batches (see package iwarp).
//
//	reader ── Receive ─▶ short? ─▶ Handler ─▶ Post ─▶ continues reading
//	                       │ no       │ takes long, per the watchdog
//	                       ▼          ▼
//	                   dispatcher   another goroutine reads; this one joins
//	                                the dispatcher when it has replied
//
// The reader that has placed a call's chunks serves that call too: the bytes
// are still in its processor's caches.
//
// Whether a call is short cannot be known in advance: it may have to wait for a
// disk, or forever. The dispatcher therefore serves call kinds that were slow
// recently, and the watchdog replaces a reader that does not return.
//
// Within TLS, reading includes decrypting, and a call for which much was pulled delays that: the
// reader hands off reading immediately, and serves the call.

// A connReader is the state of the goroutine that reads a connection. That
// goroutine owns the fields, unless a field's comment states otherwise.
type connReader struct {
	handoff rdma.ReaderHandoff // nil: the reader serves no calls
	mapped  rdma.MappedSender  // nil: the connection never sends from mappings
	relief  relief.Reader
	kinds   relief.Kinds // one per procedure, or per Server.Kind within a procedure
}

// init queries the capabilities of the connection below.
func (r *connReader) init(c rdma.Conn, serves bool) {
	if serves {
		r.handoff, _ = c.(rdma.ReaderHandoff)
	}
	r.mapped, _ = c.(rdma.MappedSender)
}

// kindToServe returns the kind of a call that the reader should serve, or nil.
func (r *connReader) kindToServe(cl *call) *relief.Kind {
	p := &cl.plan
	if r.handoff == nil || len(cl.body) < rpcmsg.CallHeaderLen { // the call is incomplete or unchecked
		return nil
	}
	var alike, form uint32
	switch {
	case cl.mayBeSealed() && max(p.maxReply, len(cl.body)) > shortSealed:
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
// encrypted, which is unknown until the message is read.
func (cl *call) mayBeSealed() bool {
	return len(cl.body) < rpcmsg.CallHeaderLen || binary.BigEndian.Uint32(cl.body[24:]) == rpcmsg.AuthGSS // RFC 5531, Section 9
}

// serveShort serves a call on the reader.
func (c *conn) serveShort(cl *call, k *relief.Kind) {
	r, w := &c.reader, &c.srv.watchdog
	n := r.relief.Begin(w, k)
	if n%relief.MaxTurn == 0 {
		runtime.Gosched() // other connections' readers may want to run
	}
	cl.assembleRequest()
	slow := w.Slow + time.Duration(cl.plan.pullSize)*timePerByte
	start := time.Now()
	answer := cl.callHandler()
	took := time.Since(start)
	cl.respond(answer)
	if r.relief.End(n) {
		k.Note(took > slow)
		return
	}
	c.srv.calls.run(nil, c.party.Own.queue)
}

// relieveReader makes another goroutine read. The current reader joins the dispatcher when it has
// served its call.
func (c *conn) relieveReader() {
	c.srv.calls.adoptGoroutine(c.party.Own.queue)
	c.reader.handoff.HandOffReader()
}

// serveAside serves a call for which much was pulled within TLS, while another
// goroutine takes over reading. It returns false if the call is not such a
// call, or must wait its turn.
func (c *conn) serveAside(cl *call) bool {
	r, q := &c.reader, cl.partyQueue()
	if c.peer.Security == nil || r.handoff == nil || cl.plan.pullSize < minHandOffPull || !c.srv.calls.tryAdopt(q) {
		return false
	}
	r.handoff.HandOffReader()
	cl.serve()
	c.srv.calls.run(nil, q)
	return true
}
