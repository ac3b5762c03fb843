package iwarp

import (
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

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
