package iwarp

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// An inbox takes the messages of one untagged queue, in sequence.
type inbox struct {
	queue ddp.Queue
	msg   *buf.Buf // the incomplete message, or nil
}

// drop releases the incomplete message.
func (in *inbox) drop() {
	if in.msg != nil {
		in.msg.Release()
		in.msg = nil
	}
}

// handOver returns the message, which has end bytes, and clears the inbox.
func (in *inbox) handOver(end int) *buf.Buf {
	b := in.msg
	b.B = b.B[:end]
	in.msg = nil
	return b
}

// untaggedSegment takes a segment of any message except RDMA Writes and RDMA
// Read Responses.
func (x *receiver) untaggedSegment(n int) error {
	seg, err := x.header(n, ddp.UntaggedLen)
	if err != nil {
		return err
	}
	h, _, err := ddp.ParseUntagged(seg.header())
	if err != nil {
		return seg.fault(err)
	}
	op, err := rdmap.CheckUntagged(h)
	if err != nil {
		return seg.fault(err)
	}
	seg.op, seg.last = op, h.Last
	switch op {
	case rdmap.OpReadRequest:
		return x.readRequest(seg, h)
	case rdmap.OpTerminate:
		return x.terminateSegment(seg, h)
	case rdmap.OpImmediate, rdmap.OpImmediateSE:
		return x.immediate(seg, h, op)
	case rdmap.OpAtomicRequest:
		return x.atomicRequest(seg, h)
	case rdmap.OpAtomicResponse:
		return x.atomicResponse(seg, h)
	}
	return x.sendSegment(seg, h, op)
}

// sendSegment takes a segment of a Send of any kind.
func (x *receiver) sendSegment(seg *segment, h ddp.Untagged, op rdmap.Opcode) error {
	in, n := &x.send, seg.payload()
	if n == 0 && h.Last && x.c.tx.gated && x.c.params.RTR&mpa.RTRSend != 0 {
		// The initiator announces that it is ready, to this layer only (RFC
		// 6581, Section 9.2).
		if err := in.queue.Place(h, 0, 0); err != nil {
			return seg.fault(err)
		}
		return x.trailer(seg)
	}
	room := x.c.recvSize
	if in.msg == nil && x.recvs.Load() <= 0 {
		room = ddp.NoBuffer
	}
	if err := in.queue.Place(h, n, room); err != nil {
		return seg.fault(err)
	}
	if in.msg == nil {
		x.recvs.Add(-1)
		if h.Last {
			room = n
		}
		in.msg = buf.Default.Get(room)
	}
	if err := x.place(in.msg.B[h.MO:][:n]); err != nil {
		return err
	}
	if err := x.trailer(seg); err != nil || !h.Last {
		return err
	}
	return x.deliverSend(seg, h, op)
}

// deliverSend hands a whole message to the upper layer, after it has
// invalidated the STag that the message names (RFC 5040, Section 5.3).
func (x *receiver) deliverSend(seg *segment, h ddp.Untagged, op rdmap.Opcode) error {
	m := rdma.Recv{Solicited: op.Solicited(), WithInvalidate: op.Invalidates()}
	if m.WithInvalidate {
		m.Invalidated = rdmap.InvalidateSTag(h)
		r := x.c.rnic.find(m.Invalidated)
		if r == nil || r.conn != x.c { // nor regions shared with other Streams: RFC 5040, Section 8.1.1, rule 7
			return seg.fault(rdmap.ErrCannotInvalidate)
		}
		x.c.tx.uncorkResponses(x.c)
		r.invalidate()
		if fault := x.c.tx.cutShort(r); fault != nil {
			x.due = fault
		}
	}
	m.Buf = x.send.handOver(int(h.MO) + seg.payload())
	return x.hand(m)
}

// terminateSegment takes the peer's last message.
func (x *receiver) terminateSegment(seg *segment, h ddp.Untagged) error {
	in, n := &x.terminate, seg.payload()
	if err := in.queue.Place(h, n, rdmap.TerminateMaxLen); err != nil {
		return seg.fault(err)
	}
	if in.msg == nil {
		in.msg = buf.Default.Get(rdmap.TerminateMaxLen)
	}
	if err := x.place(in.msg.B[h.MO:][:n]); err != nil {
		return err
	}
	if err := x.trailer(seg); err != nil || !h.Last {
		return err
	}
	t, err := rdmap.ParseTerminate(in.msg.B[:int(h.MO)+n])
	if err != nil {
		return fmt.Errorf("iwarp: the peer's Terminate cannot be read: %w", err)
	}
	return x.c.remoteFault(t)
}

// immediate takes Immediate Data and hands it to the upper layer in order with
// the Sends, with which it shares queue 0 and its receives (RFC 7306, Section
// 6.3). The data of earlier RDMA Writes is placed by then, since the reader
// processes segments in sequence.
func (x *receiver) immediate(seg *segment, h ddp.Untagged, op rdmap.Opcode) error {
	if !x.c.takesImm {
		return seg.fault(rdmap.ErrOpcode) // Section 1.1
	}
	in, room := &x.send, max(x.c.recvSize, rdmap.ImmediateLen)
	if in.msg == nil && x.recvs.Load() <= 0 {
		room = ddp.NoBuffer
	}
	if err := in.queue.Place(h, seg.payload(), room); err != nil {
		return seg.fault(err)
	}
	if in.msg != nil { // within a Send
		return seg.fault(rdmap.ErrUnspecified)
	}
	if err := x.short(seg, h, rdmap.ImmediateLen); err != nil {
		return err
	}
	if err := x.trailer(seg); err != nil {
		return err
	}
	x.recvs.Add(-1)
	return x.hand(rdma.Recv{
		Immediate: [rdmap.ImmediateLen]byte(seg.message()), WithImmediate: true, Solicited: op.Solicited(),
	})
}
