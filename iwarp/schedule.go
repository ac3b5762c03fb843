package iwarp

import (
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

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
func (q *sendQueue) endMessage(c *Conn, b *batch) {
	switch q.cur.op {
	case rdmap.OpTerminate:
	case rdmap.OpReadResponse:
		// Counted now and not when it is written: the peer may ask anew as
		// soon as it has the last octet.
		c.rx.reading.Add(-1)
		if q.cur.region != nil {
			b.regions = append(b.regions, q.cur.region)
		}
	default:
		q.next++
	}
	q.cur = message{}
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

// sendRTR sends the indication that an initiator sends before all else in the
// peer-to-peer model (RFC 6581, Section 9.2).
func (q *sendQueue) sendRTR(c *Conn, kind mpa.RTR) {
	w := workRequest{WR: rdma.WR{Op: rdma.OpWrite}}
	switch kind {
	case mpa.RTRSend:
		w.Op = rdma.OpSend
	case mpa.RTRRead:
		w.Op, w.Data = rdma.OpRead, [][]byte{nil}
	}
	q.mu.Lock()
	q.grow(1)
	*q.at(q.tail) = w
	q.tail++
	q.kick(c)
}
