package iwarp

import (
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// readRequest takes an RDMA Read Request and queues its response. The upper
// layer is not informed (RFC 5040, Section 5.2.1).
func (x *receiver) readRequest(seg *segment, h ddp.Untagged) error {
	if err := x.request(seg, h, rdmap.ReadRequestLen); err != nil {
		return err
	}
	req, err := rdmap.ParseReadRequest(seg.message())
	if err != nil {
		return seg.fault(err)
	}
	if err := x.trailer(seg); err != nil {
		return err
	}
	resp, err := x.c.source(req)
	if err != nil {
		return seg.fault(err)
	}
	resp.read.header = [ddp.UntaggedLen]byte(seg.header())
	x.asked.Add(1)
	x.cork()
	x.c.tx.respond(x.c, resp)
	return nil
}

// request takes an RDMA Read Request or Atomic Request of want bytes. Both
// kinds share the queue and its IRD buffers (RFC 5040, Section 6.1; RFC 7306,
// Section 5.2).
func (x *receiver) request(seg *segment, h ddp.Untagged, want int) error {
	room := want
	if x.asked.Load() >= int64(x.c.params.IRD) {
		room = ddp.NoBuffer
	}
	if err := x.requests.Place(h, seg.payload(), room); err != nil {
		return seg.fault(err)
	}
	return x.short(seg, h, want)
}

// source finds the memory that an RDMA Read requests, and pins its region. The
// order of the checks follows RFC 5040, Section 7.2.
func (c *Conn) source(req rdmap.ReadRequest) (response, error) {
	resp := response{read: askedRead{ReadRequest: req}}
	if req.Size == 0 { // nothing is checked: Section 5.2.1
		return resp, nil
	}
	r := c.rnic.find(req.SourceSTag)
	if r == nil {
		return resp, rdmap.ErrInvalidSTag
	}
	if r = r.on(c); r == nil {
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

// An outboundRead is an RDMA Read of ours that awaits its response.
type outboundRead struct {
	wr     uint64          // its index in the send queue
	length int             // of the response, in bytes
	data   []byte          // destination of the response,
	sink   rdma.LazyBuffer // unless sink lends the memory
	to     uint64          // the tagged offset in the request
}

// memory returns the destination of the response. It is called once.
func (o *outboundRead) memory() []byte {
	if o.sink != nil {
		return o.sink.Lend()[:o.length]
	}
	return o.data
}

// readResponse places a segment of an RDMA Read Response. Responses arrive in
// the order of the requests, so the segment belongs to the oldest request.
func (x *receiver) readResponse(seg *segment, h ddp.Tagged) error {
	q, size := &x.c.tx, seg.payload()
	q.mu.Lock()
	if q.reads.len() == 0 {
		q.mu.Unlock()
		return seg.fault(ddp.ErrInvalidSTag) // no sink is open
	}
	o := *q.reads.front()
	q.got += uint64(size)
	q.mu.Unlock()
	left := o.length - x.got
	switch {
	case size > 0 && h.STag != q.sinkSTag: // with no payload, neither is checked: RFC 5041, Section 5.2
		return seg.fault(ddp.ErrInvalidSTag)
	case size > 0 && h.TO != o.to+uint64(x.got), size > left, h.Last && size < left:
		return seg.fault(ddp.ErrBounds)
	}
	if x.into == nil && size > 0 {
		x.into = o.memory()
	}
	mem := x.into[x.got:]
	if err := x.placeMore(seg, mem[:size], mem[size:], nil); err != nil {
		return err
	}
	x.got += size
	if err := x.trailer(seg); err != nil || !h.Last {
		return err
	}
	x.into, x.got = nil, 0
	x.cork()
	q.readAnswered(x.c)
	return x.deliver()
}
