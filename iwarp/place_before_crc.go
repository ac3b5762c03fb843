package iwarp

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
)

// With CRCs on, an FPDU must have no effect before its CRC has been checked
// (RFC 5044, Section 6). To copy each payload from staging to its place after
// the check costs as much as the CRC itself, and a system call each. Therefore
// the payload of a long FPDU goes to its place before the check, if the content
// of the place is undefined until a later message arrives. No later message
// follows a bad FPDU, which ends the connection.
//
//	region    │ written by the peer       │ undefined          │
//	                                  top ▲
//	                                      └─ payload, then its CRC ─┬─ good: top moves
//	                                                                └─ bad: the end
//
// This applies to this end's RDMA Reads in progress, whose responses go behind
// all earlier bytes, and to regions with rdma.Scratch, behind top: even a
// corrupt header cannot lead to valid bytes. An FPDU whose header has any error
// is not placed early: the error is reported only after the CRC has been
// checked.

// mayPlaceEarly reports whether the payload of an FPDU with a ULPDU of n bytes
// may be placed before its CRC has been checked.
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

// awaits reports whether an RDMA Read Response segment with size bytes is the
// next segment, after got bytes have arrived.
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

// checkPlaced checks the CRC of an FPDU whose payload is already placed.
func (s *segment) checkPlaced(trailer []byte) error {
	var length [mpa.LengthLen]byte
	binary.BigEndian.PutUint16(length[:], uint16(s.n))
	crc := mpa.UpdateCRC(0, length[:])
	crc = mpa.UpdateCRC(crc, s.header())
	return mpa.CheckTrailer(trailer, mpa.UpdateCRC(crc, s.placed))
}
