package rdmap

import (
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// AppendTagged appends the header of a segment of op, an RDMA Write or an RDMA
// Read Response, whose payload goes to offset to of the peer's buffer. The STag
// of a Read Response is copied from the request, uninterpreted (RFC 5040,
// Section 4.4).
func AppendTagged(b []byte, op Opcode, last bool, stag rdma.STag, to uint64) []byte {
	return ddp.Tagged{Last: last, RsvdULP: control(op), STag: stag, TO: to}.AppendTo(b)
}

// AppendUntagged appends the header of a segment of op, any other opcode, with
// the queue of op. The Invalidate STag is sent as zero unless op.Invalidates().
// The caller must append the payload of a Send, or the whole body of another
// message, which has one segment.
func AppendUntagged(b []byte, op Opcode, last bool, invalidate rdma.STag, msn, mo uint32) []byte {
	if !op.Invalidates() {
		invalidate = 0
	}
	return ddp.Untagged{
		Last:     last,
		RsvdULP:  control(op),
		RsvdULP4: uint32(invalidate),
		QN:       kinds[op].queue,
		MSN:      msn,
		MO:       mo,
	}.AppendTo(b)
}
