package rdmap

import (
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// AppendWriteHeader appends the header of an RDMA Write segment that places its
// payload at to in the peer's buffer.
func AppendWriteHeader(b []byte, stag rdma.STag, to uint64, last bool) []byte {
	return ddp.Tagged{Last: last, RsvdULP: control(OpWrite), STag: stag, TO: to}.AppendTo(b)
}

// AppendReadResponseHeader appends the header of an RDMA Read Response segment,
// whose STag and TO come from the Read Request, the STag uninterpreted
// (RFC 5040, Section 4.4).
func AppendReadResponseHeader(b []byte, stag rdma.STag, to uint64, last bool) []byte {
	return ddp.Tagged{Last: last, RsvdULP: control(OpReadResponse), STag: stag, TO: to}.AppendTo(b)
}

// AppendSendHeader appends the header of a segment of a Send, whose op is one
// of SendOpcode. The Invalidate STag is sent as zero unless op Invalidates.
func AppendSendHeader(b []byte, op Opcode, invalidate rdma.STag, msn, mo uint32, last bool) []byte {
	if !op.Invalidates() {
		invalidate = 0
	}
	return ddp.Untagged{
		Last: last, RsvdULP: control(op), RsvdULP4: uint32(invalidate),
		QN: QueueSend, MSN: msn, MO: mo,
	}.AppendTo(b)
}

// AppendReadRequest appends the one segment of an RDMA Read Request.
func AppendReadRequest(b []byte, msn uint32, r ReadRequest) []byte {
	h := ddp.Untagged{Last: true, RsvdULP: control(OpReadRequest), QN: QueueRead, MSN: msn}
	return r.AppendTo(h.AppendTo(b))
}

// AppendTerminate appends the one segment of a Terminate message, the first and
// last message of its queue.
func AppendTerminate(b []byte, t Terminate) []byte {
	h := ddp.Untagged{Last: true, RsvdULP: control(OpTerminate), QN: QueueTerminate, MSN: ddp.FirstMSN}
	return t.AppendTo(h.AppendTo(b))
}
