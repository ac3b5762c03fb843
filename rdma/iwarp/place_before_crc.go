package iwarp

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// With CRCs on, an FPDU must have no effect before its CRC has been checked
// (RFC 5044, Section 6). Copying each payload from staging to its place after
// the check costs as much as the CRC itself, plus a system call each. Therefore
// a long FPDU's payload is placed before the check, if the memory's content is
// undefined until a later message arrives. No later message follows a bad FPDU,
// which terminates the connection.
//
//	region    │ written by the peer       │ undefined          │
//	                                  top ▲
//	                                      └─ payload, then its CRC ─┬─ good: top moves
//	                                                                └─ bad: Terminate
//
// This applies to local RDMA Reads in progress, whose response bytes follow all
// earlier ones, and to regions with rdma.Scratch, beyond top: even a corrupt
// header cannot overwrite valid bytes. An FPDU whose header has any error is
// not placed early: the error is reported only after the CRC has been checked.

// mayPlaceEarly reports whether an FPDU's payload, with a ULPDU of n bytes, may
// be placed before its CRC has been checked.
func (x *receiver) mayPlaceEarly(n int) (bool, error) {
	size := n - ddp.TaggedLen
	if !x.c.params.CRC || x.markers != nil || size <= shortPayload {
		return false, nil
	}
	if err := x.stageAtLeast(mpa.LengthLen + ddp.TaggedLen); err != nil {
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
		return x.c.tx.isNextReadSegment(h, x.readGot, size), nil
	}
	r, _, err := x.c.pinSink(h, size)
	if err != nil {
		return false, nil
	}
	defer r.unpin()
	return r.scratch && h.TO >= r.top, nil
}

// isNextReadSegment reports whether an RDMA Read Response segment with size bytes is the next
// expected segment, after got bytes have arrived.
func (q *sendQueue) isNextReadSegment(h ddp.Tagged, got, size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reads.len() == 0 {
		return false
	}
	o := q.reads.front()
	left := o.length - got
	return h.STag == q.sinkSTag && h.TO == o.to+uint64(got) && size <= left && (!h.Last || size == left)
}

// checkPlaced checks an FPDU's CRC when its payload has already been placed.
func (s *segment) checkPlaced(trailer []byte) error {
	var length [mpa.LengthLen]byte
	binary.BigEndian.PutUint16(length[:], uint16(s.ulpduLen))
	crc := mpa.UpdateCRC(0, length[:])
	crc = mpa.UpdateCRC(crc, s.ddpHeader())
	return mpa.CheckTrailer(trailer, mpa.UpdateCRC(crc, s.placed))
}
