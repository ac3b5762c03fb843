package iwarp

import (
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// atomicRequest takes an Atomic Request, performs the operation, and queues its
// response. The upper layer is not informed (RFC 7306, Section 5.2.1).
//
// The reader performs the operation at once, in the order of the requests. The
// response is queued behind the RDMA Read Responses that are due, which may not
// have read their memory yet: a Read that must not see the effect of a later
// atomic operation needs a fence (Section 7).
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

// operate performs req with the processor's compare-and-swap: no other Stream,
// nor rdma.Word, sees half of it (RFC 7306, Section 5.3). The order of the
// checks is the order of an RDMA Read's. The check of the alignment (Section
// 8.2) comes last, since only a word of this Stream has an address.
func (c *Conn) operate(req rdmap.AtomicRequest) (original uint64, err error) {
	r := c.rnic.find(req.STag)
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
	id uint32 // identifies the request
}

// atomicResponse takes an Atomic Response. Its MSN, the next MSN of queue 3,
// shows that the response belongs to the oldest operation (RFC 7306, Section
// 5).
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
