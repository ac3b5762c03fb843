package iwarp

import (
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// taggedSegment takes a segment of an RDMA Write or an RDMA Read Response.
func (x *receiver) taggedSegment(n int) error {
	seg, err := x.header(n, ddp.TaggedLen)
	if err != nil {
		return err
	}
	h, _, err := ddp.ParseTagged(seg.header())
	if err != nil {
		return seg.fault(err)
	}
	op, err := rdmap.CheckTagged(h)
	if err != nil {
		return seg.fault(err)
	}
	seg.op, seg.last = op, h.Last
	if op == rdmap.OpReadResponse {
		return x.readResponse(seg, h)
	}
	return x.write(seg, h)
}

// write places a segment of an RDMA Write. The upper layer is not informed (RFC
// 5040, Section 5.1).
func (x *receiver) write(seg *segment, h ddp.Tagged) error {
	size := seg.payload()
	if size == 0 { // neither STag nor TO is checked: RFC 5041, Section 5.2
		return x.trailer(seg)
	}
	r, mem, err := x.c.sink(h, size)
	if err != nil {
		return seg.fault(err)
	}
	rest := mem[size:]
	if !r.scratch || h.TO+uint64(size) < r.top {
		rest = nil
	}
	err = x.placeMore(seg, mem[:size], rest, r)
	r.top = max(r.top, h.TO+uint64(size))
	if err == nil {
		r.placed.add(span{h.TO, h.TO + uint64(size)})
	}
	r.unpin()
	if err != nil {
		return err
	}
	return x.trailer(seg)
}

// sink returns the destination of size bytes of a tagged segment, up to the end
// of the region, and pins the region. The order of the checks follows RFC 5041,
// Section 7.1.
func (c *Conn) sink(h ddp.Tagged, size int) (*region, []byte, error) {
	r := c.rnic.find(h.STag)
	if r == nil {
		return nil, nil, ddp.ErrInvalidSTag
	}
	if r = r.on(c); r == nil {
		return nil, nil, ddp.ErrSTagStream
	}
	b := ddp.Buffer{Len: uint64(r.size), Writable: r.access&rdma.RemoteWrite != 0}
	if err := ddp.CheckTagged(b, h, size); err != nil {
		return nil, nil, err
	}
	mem, ok := r.pin()
	if !ok {
		return nil, nil, ddp.ErrInvalidSTag
	}
	return r, mem[h.TO:], nil
}
