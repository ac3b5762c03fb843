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

// A segment is one DDP segment of the peer. It keeps the headers, because a
// Terminate carries the headers of the faulty segment.
type segment struct {
	n      int  // bytes of header and payload
	size   int  // bytes of the DDP header
	rdmap  int  // bytes of the RDMAP header kept behind it
	last   bool // last segment of its message,
	op     rdmap.Opcode
	placed []byte // payload, in its place
	copied [ddp.UntaggedLen + rdmap.AtomicRequestLen]byte
}

// header returns the DDP header.
func (s *segment) header() []byte { return s.copied[:s.size] }

// payload returns the number of bytes behind the DDP header.
func (s *segment) payload() int { return s.n - s.size }

// message returns the RDMAP header, if it was kept.
func (s *segment) message() []byte { return s.copied[s.size:][:s.rdmap] }

// header copies the DDP header of a segment of n bytes out of the stream.
func (x *receiver) header(n, size int) (*segment, error) {
	seg := &x.seg
	*seg = segment{n: n, size: size}
	if n < size {
		return nil, localFault(ddp.ErrShort)
	}
	if err := x.need(size); err != nil {
		return nil, err
	}
	copy(seg.copied[:], x.staging.B[x.r:][:size])
	x.r += size
	return seg, nil
}

// short takes the payload of seg, which must be a whole message of want bytes
// in one segment; the smallest MULPDU holds such a message.
func (x *receiver) short(seg *segment, h ddp.Untagged, want int) error {
	if seg.payload() != want || !h.Last || h.MO != 0 {
		return seg.fault(rdmap.ErrLength)
	}
	if err := x.place(seg.copied[seg.size:][:want]); err != nil {
		return err
	}
	seg.rdmap = want
	return nil
}
