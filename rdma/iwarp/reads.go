package iwarp

import (
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// receiveReadRequest receives an RDMA Read Request and queues its response. The upper layer is not
// informed (RFC 5040, Section 5.2.1).
func (x *receiver) receiveReadRequest(seg *segment, h ddp.Untagged) error {
	if err := x.receiveRequest(seg, h, rdmap.ReadRequestLen); err != nil {
		return err
	}
	req, err := rdmap.ParseReadRequest(seg.rdmapHeader())
	if err != nil {
		return seg.newFault(err)
	}
	if err := x.consumeTrailer(seg); err != nil {
		return err
	}
	resp, err := x.c.pinSource(req)
	if err != nil {
		return seg.newFault(err)
	}
	resp.read.header = [ddp.UntaggedLen]byte(seg.ddpHeader())
	x.peerRequests.Add(1)
	x.corkQueue()
	x.c.tx.queueResponse(x.c, resp)
	return nil
}

// receiveRequest receives an RDMA Read Request or Atomic Request of want bytes.
// Both kinds share the queue and its IRD buffers (RFC 5040, Section 6.1; RFC
// 7306, Section 5.2).
func (x *receiver) receiveRequest(seg *segment, h ddp.Untagged, want int) error {
	bufferLen := want
	if x.peerRequests.Load() >= int64(x.c.params.IRD) {
		bufferLen = ddp.NoBuffer
	}
	if err := x.requests.Place(h, seg.payloadLen(), bufferLen); err != nil {
		return seg.newFault(err)
	}
	return x.readShortMessage(seg, h, want)
}

// pinSource finds the memory that an RDMA Read requests, and pins its region.
// The checks follow the order in RFC 5040, Section 7.2.
func (c *Conn) pinSource(req rdmap.ReadRequest) (response, error) {
	resp := response{read: inboundRead{ReadRequest: req}}
	if req.Size == 0 { // nothing is checked: Section 5.2.1
		return resp, nil
	}
	r := c.rnic.findRegion(req.SourceSTag)
	if r == nil {
		return resp, rdmap.ErrInvalidSTag
	}
	if r = r.viewFor(c); r == nil {
		return resp, rdmap.ErrSTagStream
	}
	src := rdmap.Source{Len: uint64(r.size), Readable: r.access&rdma.RemoteRead != 0}
	if err := req.Check(src); err != nil {
		return resp, err
	}
	mem, ok := r.pin()
	if !ok {
		return resp, rdmap.ErrInvalidSTag
	}
	resp.region, resp.data = r, mem[req.SourceTO:][:req.Size]
	return resp, nil
}

// An outboundRead is a local RDMA Read that awaits its response.
type outboundRead struct {
	wr     uint64          // its index in the send queue
	length int             // response length, in bytes
	data   []byte          // destination for the response,
	sink   rdma.LazyBuffer // unless sink lends the memory
	to     uint64          // the tagged offset in the request
}

// destination returns the memory for the response. It must be called only once.
func (o *outboundRead) destination() []byte {
	if o.sink != nil {
		return o.sink.Lend()[:o.length]
	}
	return o.data
}

// placeReadResponse places an RDMA Read Response segment. Responses arrive in request order, so the
// segment belongs to the oldest request.
func (x *receiver) placeReadResponse(seg *segment, h ddp.Tagged) error {
	q, size := &x.c.tx, seg.payloadLen()
	q.mu.Lock()
	if q.reads.len() == 0 {
		q.mu.Unlock()
		return seg.newFault(ddp.ErrInvalidSTag) // no sink is open
	}
	o := *q.reads.front()
	q.readRespBytes += uint64(size)
	q.mu.Unlock()
	left := o.length - x.readGot
	switch {
	case size > 0 && h.STag != q.sinkSTag: // with no payload, neither is checked: RFC 5041, Section 5.2
		return seg.newFault(ddp.ErrInvalidSTag)
	case size > 0 && h.TO != o.to+uint64(x.readGot), size > left, h.Last && size < left:
		return seg.newFault(ddp.ErrBounds)
	}
	if x.readDest == nil && size > 0 {
		x.readDest = o.destination()
	}
	mem := x.readDest[x.readGot:]
	if err := x.placeBatched(seg, mem[:size], mem[size:], nil); err != nil {
		return err
	}
	x.readGot += size
	if err := x.consumeTrailer(seg); err != nil || !h.Last {
		return err
	}
	x.readDest, x.readGot = nil, 0
	x.corkQueue()
	q.completeRead(x.c)
	return x.deliverCompletions()
}
