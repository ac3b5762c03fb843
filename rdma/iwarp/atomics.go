package iwarp

import (
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// receiveAtomicRequest receives an Atomic Request, performs the operation, and queues its response.
// The upper layer is not informed (RFC 7306, Section 5.2.1).
//
// The reader performs operations at once, in request order. The response is
// queued after the pending RDMA Read Responses, which may not have read their
// memory yet: a Read that must not see the effect of a later atomic operation
// needs a fence (Section 7).
func (x *receiver) receiveAtomicRequest(seg *segment, h ddp.Untagged) error {
	if err := x.receiveRequest(seg, h, rdmap.AtomicRequestLen); err != nil {
		return err
	}
	if err := x.consumeTrailer(seg); err != nil { // delivered: Section 5.4, rule 5
		return err
	}
	req, err := rdmap.ParseAtomicRequest(seg.rdmapHeader())
	if err != nil {
		return seg.newFault(err)
	}
	if err := x.c.tenure.Check(); err != nil { // another process may own the word's meaning by now
		return err
	}
	original, err := x.c.performAtomic(req)
	if err != nil {
		return seg.newFault(err)
	}
	x.peerRequests.Add(1)
	x.corkQueue()
	x.c.tx.queueResponse(x.c, response{atomic: true, atomicResult: rdmap.AtomicResponse{ID: req.ID, Original: original}})
	return nil
}

// performAtomic performs req with the processor's compare-and-swap: neither another Stream nor
// rdma.Word sees a partial update (RFC 7306, Section 5.3). The checks run in the same order as for
// an RDMA Read. The alignment check (Section 8.2) comes last, since only a word that this Stream
// can reach has an address.
func (c *Conn) performAtomic(req rdmap.AtomicRequest) (original uint64, err error) {
	r := c.rnic.findRegion(req.STag)
	if r == nil {
		return 0, rdmap.ErrInvalidSTag
	}
	if r = r.viewFor(c); r == nil {
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

// An outboundAtomic is a local atomic operation that awaits its response.
type outboundAtomic struct {
	wr uint64 // its index in the send queue
	id uint32 // identifies the request
}

// receiveAtomicResponse receives an Atomic Response. Its MSN, the next MSN of queue 3, shows that
// the response belongs to the oldest operation (RFC 7306, Section 5).
func (x *receiver) receiveAtomicResponse(seg *segment, h ddp.Untagged) error {
	q, bufferLen := &x.c.tx, rdmap.AtomicResponseLen
	q.mu.Lock()
	if q.atomics.len() == 0 {
		bufferLen = ddp.NoBuffer
	}
	q.mu.Unlock()
	if err := x.atomics.Place(h, seg.payloadLen(), bufferLen); err != nil {
		return seg.newFault(err)
	}
	if err := x.readShortMessage(seg, h, rdmap.AtomicResponseLen); err != nil {
		return err
	}
	if err := x.consumeTrailer(seg); err != nil {
		return err
	}
	resp, err := rdmap.ParseAtomicResponse(seg.rdmapHeader())
	if err != nil {
		return seg.newFault(err)
	}
	x.corkQueue()
	if !q.completeAtomic(x.c, resp) {
		return seg.newFault(rdmap.ErrUnspecified)
	}
	return x.deliverCompletions()
}
