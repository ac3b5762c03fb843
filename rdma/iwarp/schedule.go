package iwarp

import (
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// nextMessage begins the next message to send, and reports whether there is
// one. A Terminate precedes all others, and is the last (RFC 5040, Section
// 5.4).
func (q *sendQueue) nextMessage(c *Conn, b *batch) bool {
	switch {
	case q.terminate != nil:
		q.cur = message{active: true, op: rdmap.OpTerminate, msn: ddp.FirstMSN}
		q.cur.bodyLen = len(q.terminate.AppendTo(q.cur.body[:0]))
		b.endsStream = true
	case q.gated:
		return false
	case q.responses.len() > 0:
		q.beginResponse(q.responses.pop(), c.params.CRC)
	case q.next < q.tail && q.mayStart(q.requestAt(q.next), c.params.ORD):
		q.beginWR(c, q.requestAt(q.next))
	default:
		return false
	}
	return true
}

// mayStart reports whether w may start before the peer sends further responses.
func (q *sendQueue) mayStart(w *workRequest, ord int) bool {
	outstanding := q.reads.len() + q.atomics.len()
	if w.Fence && outstanding > 0 {
		return false
	}
	return !w.needsResponse() || outstanding < ord // RFC 5040, Section 6.1; RFC 7306, Section 5.2
}

// beginResponse sets the current message to r; crc tells whether CRCs are on.
func (q *sendQueue) beginResponse(r response, crc bool) {
	if r.atomic {
		q.atomicResps++
		q.cur = message{active: true, op: rdmap.OpAtomicResponse, msn: q.atomicResps}
		q.cur.bodyLen = len(r.atomicResult.AppendTo(q.cur.body[:0]))
		return
	}
	q.cur = message{active: true, op: rdmap.OpReadResponse, read: r.read, region: r.region, length: len(r.data)}
	q.cur.copied = crc && r.region != nil && r.region.access&(rdma.RemoteWrite|rdma.RemoteAtomic) != 0
	q.cur.remote = rdma.Remote{STag: r.read.SinkSTag, TO: r.read.SinkTO}
	q.oneSlice[0] = r.data
	q.cur.data = q.oneSlice[:]
}

// beginWR sets the current message to w.
func (q *sendQueue) beginWR(c *Conn, w *workRequest) {
	q.cur = message{active: true, data: w.Data, length: w.length, remote: w.Remote, wr: q.next, reread: w.Reread, queue: q}
	m := &q.cur
	m.copied = w.Reread != nil && (c.params.CRC || !c.sendsMapped())
	switch w.Op {
	case rdma.OpWrite:
		m.op = rdmap.OpWrite
	case rdma.OpSend:
		m.op = rdmap.SendOpcode(w.WithInvalidate, w.Solicited)
		q.sends++
		m.msn = q.sends
		if w.WithInvalidate {
			m.invalidate = w.Invalidate
		}
	case rdma.OpRead:
		q.beginRead(w)
	case rdma.OpFetchAdd, rdma.OpCompareSwap:
		q.beginAtomic(w)
	case rdma.OpImmediate:
		q.sends++
		m.op, m.msn = rdmap.ImmediateOpcode(w.Solicited), q.sends
		m.bodyLen = copy(m.body[:], w.Immediate[:])
		q.extended = true
	}
}

func (q *sendQueue) beginRead(w *workRequest) {
	q.requests++
	o := outboundRead{wr: q.next, length: w.length, to: uint64(q.requests) << 32, sink: w.Sink}
	if w.Sink == nil {
		o.data = w.Data[0]
	}
	q.reads.push(o)
	m := &q.cur
	m.op, m.msn, m.length, m.data = rdmap.OpReadRequest, q.requests, 0, nil
	m.bodyLen = len(rdmap.ReadRequest{
		SinkSTag: q.sinkSTag, SinkTO: o.to, Size: uint32(w.length),
		SourceSTag: w.Remote.STag, SourceTO: w.Remote.TO,
	}.AppendTo(m.body[:0]))
}

func (q *sendQueue) beginAtomic(w *workRequest) {
	q.requests++
	q.atomicReqs++
	q.atomics.push(outboundAtomic{wr: q.next, id: q.atomicReqs})
	m := &q.cur
	m.op, m.msn = rdmap.OpAtomicRequest, q.requests
	m.bodyLen = len(rdmap.AtomicRequest{
		Op: w.Op, ID: q.atomicReqs, STag: w.Remote.STag, TO: w.Remote.TO, Atomic: w.Atomic,
	}.AppendTo(m.body[:0]))
	q.extended = true
}

// endMessage completes the current message, whose last bytes are in b.
func (q *sendQueue) endMessage(c *Conn, b *batch) {
	switch q.cur.op {
	case rdmap.OpTerminate:
		c.rnic.terminates.sent.countCause(q.terminate.Cause)
	case rdmap.OpReadResponse, rdmap.OpAtomicResponse:
		// Counted now and not when b is written: the peer may send a new
		// request as soon as it receives the last byte.
		c.rx.peerRequests.Add(-1)
		if q.cur.region != nil {
			b.regions = append(b.regions, q.cur.region)
		}
	default:
		q.next++
	}
	q.cur = message{}
}

// hasExtended reports whether this end has sent an RFC 7306 message.
func (q *sendQueue) hasExtended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.extended
}

// allowSending allows a responder to send after the peer's first FPDU (RFC 5044, Section 7.1.2,
// rule 4).
func (q *sendQueue) allowSending(c *Conn) {
	q.mu.Lock()
	q.gated = false
	q.startWriterUnlock(c)
}

// sendRTR sends an initiator's first message in the peer-to-peer model, the
// ready-to-receive indication (RFC 6581, Section 9.2).
func (q *sendQueue) sendRTR(c *Conn, kind mpa.RTR) {
	w := workRequest{WR: rdma.WR{Op: rdma.OpWrite}}
	switch kind {
	case mpa.RTRSend:
		w.Op = rdma.OpSend
	case mpa.RTRRead:
		w.Op, w.Data = rdma.OpRead, [][]byte{nil}
	}
	q.mu.Lock()
	q.growRing(1)
	*q.requestAt(q.tail) = w
	q.tail++
	q.startWriterUnlock(c)
}
