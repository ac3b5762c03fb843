package iwarp

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
)

// With CRCs on, nothing may come of an FPDU before its CRC has been checked (RFC
// 5044, Section 6). To copy each from staging to its place after that costs as much
// as the CRC itself, and a system call for each. So the payload of a long one goes
// to its place before, where the place is such that nobody can tell: what it holds
// counts for nothing until a later message has come, and none comes behind a bad
// FPDU, which ends the connection.
//
//	region    │ what the peer has written │ counts for nothing │
//	                                  top ▲
//	                                      └─ payload, then its CRC ─┬─ good: top moves
//	                                                                └─ bad: the end
//
// So it is with this end's RDMA Reads under way, where a response goes behind all
// that came before, and in regions with rdma.Scratch, behind top: a header that is
// itself broken cannot lead to octets that count. Whatever else a header says is
// looked at when it is known to be good.

// mayPlaceEarly tells whether the payload of an FPDU around n octets may be placed
// before its CRC has been checked.
func (x *receiver) mayPlaceEarly(n int) (bool, error) {
	size := n - ddp.TaggedLen
	if !x.c.params.CRC || x.markers != nil || size <= shortPayload {
		return false, nil
	}
	if err := x.need(mpa.LengthLen + ddp.TaggedLen); err != nil {
		return false, err
	}
	header := x.staging.B[x.r+mpa.LengthLen:][:ddp.TaggedLen]
	if !ddp.IsTagged(header[0]) {
		return false, nil
	}
	h, _, err := ddp.ParseTagged(header)
	if err != nil {
		return false, nil
	}
	op, err := rdmap.CheckTagged(h)
	switch {
	case err != nil:
		return false, nil
	case op == rdmap.OpReadResponse:
		return x.c.tx.awaits(h, x.got, size), nil
	}
	r, _, err := x.c.sink(h, size)
	if err != nil {
		return false, nil
	}
	defer r.unpin()
	return r.scratch && h.TO >= r.top, nil
}

// awaits tells whether a segment of an RDMA Read Response with size octets is the
// one that comes next, where got octets have come.
func (q *sendQueue) awaits(h ddp.Tagged, got, size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reads.len() == 0 {
		return false
	}
	o := q.reads.front()
	left := o.length - got
	return h.STag == q.sinkSTag && h.TO == o.to+uint64(got) && size <= left && (!h.Last || size == left)
}

// checkPlaced checks the CRC of an FPDU whose payload is in its place.
func (s *segment) checkPlaced(trailer []byte) error {
	var length [mpa.LengthLen]byte
	binary.BigEndian.PutUint16(length[:], uint16(s.n))
	crc := mpa.UpdateCRC(0, length[:])
	crc = mpa.UpdateCRC(crc, s.header())
	return mpa.CheckTrailer(trailer, mpa.UpdateCRC(crc, s.placed))
}
