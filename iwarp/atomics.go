package iwarp

import (
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// atomicRequest takes an Atomic Request, does what it says, and queues its
// response. The upper layer learns nothing of it (RFC 7306, Section 5.2.1).
//
// It is done here and now, so that operations are done in the order of their
// requests; their responses go behind the RDMA Read Responses that are due, of
// which the octets may still be in memory: a Read that must not see what an
// atomic operation behind it does wants a fence (Section 7).
func (x *receiver) atomicRequest(seg *segment, h ddp.Untagged) error {
	if err := x.request(seg, h, rdmap.AtomicRequestLen); err != nil {
		return err
	}
	if err := x.trailer(seg); err != nil { // delivered: Section 5.4, rule 5
		return err
	}
	req, err := rdmap.ParseAtomicRequest(seg.message())
	if err != nil {
		return seg.fault(err)
	}
	original, err := x.c.operate(req)
	if err != nil {
		return seg.fault(err)
	}
	x.asked.Add(1)
	x.cork()
	x.c.tx.respond(x.c, response{atomic: true, answer: rdmap.AtomicResponse{ID: req.ID, Original: original}})
	return nil
}

// operate does what req says, by the processor's compare-and-swap: no other
// Stream, nor rdma.Word, sees half of it (RFC 7306, Section 5.3). The order of
// the checks is that of an RDMA Read, and the alignment's (Section 8.2) comes
// last, since only a word of this Stream has an address.
func (c *Conn) operate(req rdmap.AtomicRequest) (original uint64, err error) {
	r := rnic.find(req.STag)
	if r == nil {
		return 0, rdmap.ErrInvalidSTag
	}
	if r = r.on(c); r == nil {
		return 0, rdmap.ErrSTagStream
	}
	target := rdmap.Target{Len: uint64(r.size), Atomic: r.access&rdma.RemoteAtomic != 0}
	if err := req.Check(target); err != nil {
		return 0, err
	}
	mem, ok := r.pin()
	if !ok {
		return 0, rdmap.ErrInvalidSTag
	}
	defer r.unpin()
	word, err := rdma.Word(mem, int(req.TO))
	if err != nil {
		return 0, rdmap.ErrStream
	}
	return req.Do(req.Op, word), nil
}

// An outboundAtomic is an atomic operation of ours that awaits its response.
type outboundAtomic struct {
	wr uint64 // its index in the send queue
	id uint32 // given for it
}

// atomicResponse takes an Atomic Response. Its MSN, which is the next one of
// queue 3, says that it belongs to the oldest operation (RFC 7306, Section 5).
func (x *receiver) atomicResponse(seg *segment, h ddp.Untagged) error {
	q, room := &x.c.tx, rdmap.AtomicResponseLen
	q.mu.Lock()
	if q.atomics.len() == 0 {
		room = ddp.NoBuffer
	}
	q.mu.Unlock()
	if err := x.atomics.Place(h, seg.payload(), room); err != nil {
		return seg.fault(err)
	}
	if err := x.short(seg, h, rdmap.AtomicResponseLen); err != nil {
		return err
	}
	if err := x.trailer(seg); err != nil {
		return err
	}
	resp, err := rdmap.ParseAtomicResponse(seg.message())
	if err != nil {
		return seg.fault(err)
	}
	x.cork()
	if !q.atomicAnswered(x.c, resp) {
		return seg.fault(rdmap.ErrUnspecified)
	}
	return x.deliver()
}
