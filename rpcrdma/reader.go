package rpcrdma

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// The goroutine that reads a connection serves its short calls: handing a call
// to another goroutine costs more than answering it, and the answers to calls
// that arrive together leave together (see Receive of package iwarp).
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
	calls  uint64             // served by the reader
	kinds  [callKinds]callKind

	// serving is the number of the call that the reader serves, or 0. If the
	// serving goroutine sets it to 0, that goroutine stays the reader; if the
	// watchdog does, another goroutine reads on.
	serving atomic.Uint64
	kind    *callKind // of that call

	// The watchdog owns these.
	relieving sync.Mutex
	guarded   atomic.Bool // the watchdog checks this reader
	seen      uint64      // serving, at the last check
	rest      int         // how many checks in a row found 0
}

// init queries the abilities of the connection below.
func (r *reader) init(c rdma.Conn, serves bool) {
	if serves {
		r.relief, _ = c.(rdma.ReaderHandoff)
	}
	m, ok := c.(rdma.MappedSender)
	r.mapped = ok && m.SendsMapped()
}

// A callKind remembers how quick calls of one procedure were, or of one
// Server.Kind of that procedure. The zero value is quick.
type callKind struct {
	away uint16 // how many of the next calls go to the dispatcher
	next uint16 // about half of away after the next slow call
}

// note records whether a call that the reader served was slow.
func (k *callKind) note(slow bool) {
	if slow {
		k.slow()
	} else if k.next > 0 {
		k.next--
	}
}

// slow records a call that kept the reader. If one call in some tens is slow,
// the reader ends up serving few of that kind.
func (k *callKind) slow() {
	k.next = min(2*k.next+1, maxAway)
	k.away = k.next
}

// takes returns the kind of a call that the reader should serve, or nil.
func (r *reader) takes(cl *call) *callKind {
	p := &cl.plan
	if r.relief == nil || len(cl.body) < callHeaderLen { // the call is incomplete or unchecked
		return nil
	}
	form := 0
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
		proc += 7 * kind(cl.body)
	}
	k := &r.kinds[(3*(31*prog+proc)+uint32(form))%callKinds]
	if k.away > 0 {
		k.away--
		return nil
	}
	return k
}

// mayBeSealed reports whether the call's arguments and results may be signed or
// encrypted, which is unknown while the message is yet to be read.
func (cl *call) mayBeSealed() bool {
	return len(cl.body) < callHeaderLen || binary.BigEndian.Uint32(cl.body[24:]) == rpcmsg.AuthGSS // Section 9 of RFC 5531
}

// serveShort answers a call that the reader takes.
func (c *conn) serveShort(cl *call, k *callKind) {
	r := &c.reader
	r.calls++
	n := r.calls
	if n%maxTurn == 0 {
		runtime.Gosched() // other connections' readers may want to run
	}
	r.kind = k
	r.serving.Store(n)
	if !r.guarded.Load() {
		c.srv.watchdog.enter(c)
	}
	cl.assemble()
	slow := c.srv.slow + time.Duration(cl.plan.pullSize)*slowByte
	start := time.Now()
	answer := cl.execute()
	took := time.Since(start)
	cl.respond(answer)
	if r.serving.CompareAndSwap(n, 0) {
		k.note(took > slow)
		return
	}
	r.relieving.Lock() // HandOffReader has returned
	//lint:ignore SA2001 that is all
	r.relieving.Unlock()
	c.srv.calls.run(nil, c.party.Own.queue)
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
