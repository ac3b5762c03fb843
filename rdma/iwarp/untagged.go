package iwarp

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// An inbox assembles the messages from one untagged queue, in sequence.
type inbox struct {
	queue ddp.Queue
	msg   *buf.Buf // the incomplete message, or nil
}

// discardMessage releases the incomplete message.
func (in *inbox) discardMessage() {
	if in.msg != nil {
		in.msg.Release()
		in.msg = nil
	}
}

// takeMessage returns the message, which is end bytes long, and clears the
// inbox.
func (in *inbox) takeMessage(end int) *buf.Buf {
	b := in.msg
	b.B = b.B[:end]
	in.msg = nil
	return b
}

// receiveUntagged receives a segment from any message except RDMA Writes and
// RDMA Read Responses.
func (x *receiver) receiveUntagged(n int) error {
	seg, err := x.readHeader(n, ddp.UntaggedLen)
	if err != nil {
		return err
	}
	h, _, err := ddp.ParseUntagged(seg.ddpHeader())
	if err != nil {
		return seg.newFault(err)
	}
	op, err := rdmap.CheckUntagged(h)
	if err != nil {
		return seg.newFault(err)
	}
	seg.op, seg.last = op, h.Last
	switch op {
	case rdmap.OpReadRequest:
		return x.receiveReadRequest(seg, h)
	case rdmap.OpTerminate:
		return x.receiveTerminate(seg, h)
	case rdmap.OpImmediate, rdmap.OpImmediateSE:
		return x.receiveImmediate(seg, h, op)
	case rdmap.OpAtomicRequest:
		return x.receiveAtomicRequest(seg, h)
	case rdmap.OpAtomicResponse:
		return x.receiveAtomicResponse(seg, h)
	}
	return x.receiveSend(seg, h, op)
}

// receiveSend receives a segment from any kind of Send.
func (x *receiver) receiveSend(seg *segment, h ddp.Untagged, op rdmap.Opcode) error {
	in, n := &x.send, seg.payloadLen()
	if n == 0 && h.Last && x.c.tx.gated && x.c.params.RTR&mpa.RTRSend != 0 {
		// The initiator announces that it is ready, only to this layer (RFC
		// 6581, Section 9.2).
		if err := in.queue.Place(h, 0, 0); err != nil {
			return seg.newFault(err)
		}
		return x.consumeTrailer(seg)
	}
	bufferLen := x.c.recvSize
	if in.msg == nil && x.recvs.Load() <= 0 {
		bufferLen = ddp.NoBuffer
	}
	if err := in.queue.Place(h, n, bufferLen); err != nil {
		return seg.newFault(err)
	}
	if in.msg == nil {
		x.recvs.Add(-1)
		if h.Last {
			bufferLen = n
		}
		in.msg = buf.Default.Get(bufferLen)
	}
	if err := x.placeBytes(in.msg.B[h.MO:][:n]); err != nil {
		return err
	}
	if err := x.consumeTrailer(seg); err != nil || !h.Last {
		return err
	}
	return x.deliverSend(seg, h, op)
}

// deliverSend delivers a complete message to the upper layer, after it has
// invalidated the STag that the message names (RFC 5040, Section 5.3).
func (x *receiver) deliverSend(seg *segment, h ddp.Untagged, op rdmap.Opcode) error {
	m := rdma.Recv{Solicited: op.Solicited(), WithInvalidate: op.Invalidates()}
	if m.WithInvalidate {
		m.Invalidated = rdmap.InvalidateSTag(h)
		r := x.c.rnic.findRegion(m.Invalidated)
		if r == nil || r.conn != x.c { // nor regions shared with other Streams: RFC 5040, Section 8.1.1, rule 7
			return seg.newFault(rdmap.ErrCannotInvalidate)
		}
		x.c.tx.uncorkResponses(x.c)
		r.invalidate()
		if fault := x.c.tx.abortReadsFrom(r); fault != nil {
			x.pendingErr = fault
		}
	}
	m.Buf = x.send.takeMessage(int(h.MO) + seg.payloadLen())
	return x.deliverMessage(m)
}

// receiveTerminate receives the peer's last message.
func (x *receiver) receiveTerminate(seg *segment, h ddp.Untagged) error {
	in, n := &x.terminate, seg.payloadLen()
	if err := in.queue.Place(h, n, rdmap.TerminateMaxLen); err != nil {
		return seg.newFault(err)
	}
	if in.msg == nil {
		in.msg = buf.Default.Get(rdmap.TerminateMaxLen)
	}
	if err := x.placeBytes(in.msg.B[h.MO:][:n]); err != nil {
		return err
	}
	if err := x.consumeTrailer(seg); err != nil || !h.Last {
		return err
	}
	t, err := rdmap.ParseTerminate(in.msg.B[:int(h.MO)+n])
	if err != nil {
		return fmt.Errorf("iwarp: invalid Terminate from the peer: %w", err)
	}
	return x.c.remoteFault(t)
}

// receiveImmediate receives Immediate Data and delivers it in order with the Sends, with which it
// shares queue 0 and its receives (RFC 7306, Section 6.3). Earlier RDMA Writes are placed by then,
// since the reader processes segments in sequence.
func (x *receiver) receiveImmediate(seg *segment, h ddp.Untagged, op rdmap.Opcode) error {
	if !x.c.acceptsImmediate {
		return seg.newFault(rdmap.ErrOpcode) // Section 1.1
	}
	in, bufferLen := &x.send, max(x.c.recvSize, rdmap.ImmediateLen)
	if in.msg == nil && x.recvs.Load() <= 0 {
		bufferLen = ddp.NoBuffer
	}
	if err := in.queue.Place(h, seg.payloadLen(), bufferLen); err != nil {
		return seg.newFault(err)
	}
	if in.msg != nil { // within a Send
		return seg.newFault(rdmap.ErrUnspecified)
	}
	if err := x.readShortMessage(seg, h, rdmap.ImmediateLen); err != nil {
		return err
	}
	if err := x.consumeTrailer(seg); err != nil {
		return err
	}
	x.recvs.Add(-1)
	return x.deliverMessage(rdma.Recv{
		Immediate: [rdmap.ImmediateLen]byte(seg.rdmapHeader()), WithImmediate: true, Solicited: op.Solicited(),
	})
}
