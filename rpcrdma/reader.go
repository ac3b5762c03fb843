package rpcrdma

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A short call is served by the goroutine that reads its connection: to hand it
// over to another costs more than to answer it, and the answers to calls that come
// together leave together (see Receive of package iwarp).
//
//	reader ── Receive ─▶ short? ─▶ Handler ─▶ Post ─▶ reads on
//	                       │ no       │ takes long, says the watchdog
//	                       ▼          ▼
//	                   dispatcher   another goroutine reads on; this one is
//	                                the dispatcher's when it has answered
//
// So is a call whose chunks have come, by the reader that has placed them: it has
// their octets in its processor's caches still.
//
// Whether a call is short cannot be known: it may have to wait for a disk, or for
// ever. So calls of a kind that was slow lately are left to the dispatcher, and the
// watchdog relieves a reader that does not come back.

// A reader is the goroutine that reads a connection. Its fields belong to it but
// where said.
type reader struct {
	relief rdma.ReaderHandoff // nil: it serves nothing
	mapped bool               // the connection sends out of mappings
	calls  uint64             // served by it
	kinds  [callKinds]callKind

	// serving is the number of the call that it serves, or 0. Who sets it to 0
	// decides whether this goroutine goes on as the reader.
	serving atomic.Uint64
	kind    *callKind // of that call

	// The watchdog's.
	relieving sync.Mutex
	guarded   atomic.Bool // it looks at this reader
	seen      uint64      // serving, when it looked last
	rest      int         // how often that has been 0
}

// init says what the connection below can do.
func (r *reader) init(c rdma.Conn, serves bool) {
	if serves {
		r.relief, _ = c.(rdma.ReaderHandoff)
	}
	m, ok := c.(rdma.MappedSender)
	r.mapped = ok && m.SendsMapped()
}

// A callKind is how quick calls of one procedure were. The zero value is quick.
type callKind struct {
	away uint16 // so many of the next calls are the dispatcher's
	next uint16 // and so many, about, when one is slow again
}

// note notes whether a call that the reader served was slow.
func (k *callKind) note(slow bool) {
	if slow {
		k.slow()
	} else if k.next > 0 {
		k.next--
	}
}

// slow notes a call that kept the reader. Where one in some tens does, few are left
// to it in the end.
func (k *callKind) slow() {
	k.next = min(2*k.next+1, maxAway)
	k.away = k.next
}

// takes returns the kind of a call that the reader is to serve, or nil.
func (r *reader) takes(cl *call) *callKind {
	p := &cl.plan
	if r.relief == nil || len(cl.body) < callHeaderLen { // not all of it is here, or it is not checked
		return nil
	}
	form := 0
	switch {
	case p.replyNeed > shortReply && !r.mayMap(cl):
		return nil
	case len(p.reads) > 0:
		form = 1
	case p.replyNeed > shortReply:
		form = 2
	}
	prog, proc := binary.BigEndian.Uint32(cl.body[12:]), binary.BigEndian.Uint32(cl.body[20:])
	k := &r.kinds[(3*(31*prog+proc)+uint32(form))%callKinds]
	if k.away > 0 {
		k.away--
		return nil
	}
	return k
}

// serve answers a call that the reader takes.
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
	slow := c.srv.slow + time.Duration(cl.plan.pullSize)*slowOctet
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
