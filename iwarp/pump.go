package iwarp

import (
	"time"

	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// maxTurns is the number of batches that somebody who came to post or to read
// writes, perhaps for others, before a goroutine takes over.
const maxTurns = 4

// kick, with the queue locked, makes the caller the writer if nobody is. It
// unlocks the queue.
func (q *sendQueue) kick(c *Conn) {
	if q.writing || q.broken {
		q.mu.Unlock()
		return
	}
	q.writing = true
	q.mu.Unlock()
	c.pump(false)
}

// pump writes batches until nothing is left that may be sent. Unless it may
// wait for the socket, it leaves the rest to a goroutine then.
func (c *Conn) pump(wait bool) {
	q := &c.tx
	for turn := 0; ; turn++ {
		if q.batch == nil {
			q.batch = batches.Get().(*batch)
		}
		b := q.batch
		if b.empty() && !q.build(c, b) {
			return
		}
		if !wait && turn == maxTurns {
			go c.pump(true)
			return
		}
		for !b.empty() {
			n, err := c.sock.writev(b.vec[b.sent:], wait)
			b.advance(n)
			if err == errWouldBlock {
				go c.pump(true)
				return
			}
			if err != nil {
				q.fail(c, err)
				return
			}
		}
		q.wrote(c, b)
	}
}

// build fills b with FPDUs. Where there are none, it ends the caller's turn as
// writer and returns false.
func (q *sendQueue) build(c *Conn, b *batch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.broken && !b.full() && !b.last && (q.cur.active || q.nextMessage(c, b)) {
		c.cut(b, &q.cur)
		if q.cur.offset == q.cur.length {
			q.endMessage(b)
		}
	}
	b.upTo = q.next
	if b.empty() {
		q.endTurn()
		return false
	}
	return true
}

// endTurn, with the queue locked, makes nobody the writer.
func (q *sendQueue) endTurn() {
	q.batch.reset()
	batches.Put(q.batch)
	q.batch = nil
	q.writing = false
	q.idle.Broadcast()
}

// nextMessage begins the message to be sent next, and reports whether there is
// one. A Terminate goes before all, and is the last (RFC 5040, Section 5.4).
func (q *sendQueue) nextMessage(c *Conn, b *batch) bool {
	switch {
	case q.terminate != nil:
		q.cur = message{active: true, op: rdmap.OpTerminate, msn: ddp.FirstMSN, terminate: *q.terminate}
		b.last = true
	case q.gated:
		return false
	case q.responses.len() > 0:
		r := q.responses.pop()
		q.cur = message{active: true, op: rdmap.OpReadResponse, remote: r.sink, region: r.region, length: len(r.data)}
		q.one[0] = r.data
		q.cur.data = q.one[:]
	case q.next < q.tail && q.mayStart(q.at(q.next), c.params.ORD):
		q.beginWR(q.at(q.next))
	default:
		return false
	}
	return true
}

// mayStart tells whether w can go before an RDMA Read comes back.
func (q *sendQueue) mayStart(w *workRequest, ord int) bool {
	if w.Fence && q.reads.len() > 0 {
		return false
	}
	return w.Op != rdma.OpRead || q.reads.len() < ord // RFC 5040, Section 6.1
}

// beginWR makes w the current message.
func (q *sendQueue) beginWR(w *workRequest) {
	q.cur = message{active: true, data: w.Data, length: w.length, remote: w.Remote}
	m := &q.cur
	switch w.Op {
	case rdma.OpWrite:
		m.op = rdmap.OpWrite
	case rdma.OpSend:
		m.op = rdmap.SendOpcode(w.WithInvalidate, w.Solicited)
		q.sends++
		m.msn = q.sends
		if w.WithInvalidate {
			m.inv = w.Invalidate
		}
	case rdma.OpRead:
		q.readReqs++
		o := outboundRead{wr: q.next, data: w.Data[0], to: uint64(q.readReqs) << 32}
		q.reads.push(o)
		m.op, m.msn, m.length, m.data = rdmap.OpReadRequest, q.readReqs, 0, nil
		m.read = rdmap.ReadRequest{
			SinkSTag: q.sinkSTag, SinkTO: o.to, Size: uint32(w.length),
			SourceSTag: w.Remote.STag, SourceTO: w.Remote.TO,
		}
	}
}

// endMessage notes that the current message is wholly in b.
func (q *sendQueue) endMessage(b *batch) {
	switch q.cur.op {
	case rdmap.OpTerminate:
	case rdmap.OpReadResponse:
		b.reads++
		if q.cur.region != nil {
			b.regions = append(b.regions, q.cur.region)
		}
	default:
		q.next++
	}
	q.cur = message{}
}

// wrote notes that b is with the socket.
func (q *sendQueue) wrote(c *Conn, b *batch) {
	c.rx.reading.Add(int64(-b.reads))
	q.mu.Lock()
	for ; q.written < b.upTo; q.written++ {
		if w := q.at(q.written); w.Op != rdma.OpRead {
			w.complete = true
		}
	}
	if b.last {
		q.broken = true
	}
	b.reset()
	q.finishLocked()
	due := q.done.len() > 0
	q.mu.Unlock()
	if due {
		q.deliver()
	}
}

// fail ends the sending after a write that failed. The reader has a moment to
// find the peer's reason, a Terminate perhaps, before the connection ends.
func (q *sendQueue) fail(c *Conn, err error) {
	q.mu.Lock()
	q.broken, q.err = true, err
	q.endTurn()
	q.mu.Unlock()
	c.sock.expire(time.Now().Add(reasonTimeout))
}

// respond queues the answer to an RDMA Read Request.
func (q *sendQueue) respond(c *Conn, r readResponse) {
	q.mu.Lock()
	if q.broken {
		q.mu.Unlock()
		if r.region != nil {
			r.region.unpin()
		}
		return
	}
	q.responses.push(r)
	q.kick(c)
}

// answered notes that the oldest RDMA Read has its whole response.
func (q *sendQueue) answered(c *Conn) {
	q.mu.Lock()
	o := q.reads.pop()
	q.at(o.wr).complete = true
	q.finishLocked()
	q.kick(c) // others may have waited for it
	q.deliver()
}

// ungate lets a responder send: the peer's first FPDU has come (RFC 5044,
// Section 7.1.2, rule 4).
func (q *sendQueue) ungate(c *Conn) {
	q.mu.Lock()
	q.gated = false
	q.kick(c)
}

// sendRTR queues the indication that an initiator sends before all else in the
// peer-to-peer model (RFC 6581, Section 9.2).
func (q *sendQueue) sendRTR(kind mpa.RTR) {
	w := workRequest{WR: rdma.WR{Op: rdma.OpWrite}}
	switch kind {
	case mpa.RTRSend:
		w.Op = rdma.OpSend
	case mpa.RTRRead:
		w.Op, w.Data = rdma.OpRead, [][]byte{nil}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.grow(1)
	*q.at(q.tail) = w
	q.tail++
}

// close lets nothing more be posted.
func (q *sendQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// sendTerminate drops what waits to be sent and sends a Terminate in its
// place. Before the peer's first FPDU a responder may not.
func (q *sendQueue) sendTerminate(c *Conn, f *Fault) {
	q.mu.Lock()
	if q.gated && f.Terminate.Cause.Layer == rdmap.LayerLLP {
		q.mu.Unlock()
		return
	}
	q.releaseResponses()
	q.terminate = &f.Terminate
	q.kick(c)
}

// drain waits until nobody writes and, with all, until every work request has
// completed. It returns false where that will not come.
func (q *sendQueue) drain(all bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.writing || all && q.head < q.tail && !q.broken {
		q.idle.Wait()
	}
	return !q.broken
}

// writeError returns the error of the write that failed, if one did.
func (q *sendQueue) writeError() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}
