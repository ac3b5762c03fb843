package iwarp

import (
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// receiveTagged receives a segment from an RDMA Write or an RDMA Read Response.
func (x *receiver) receiveTagged(n int) error {
	seg, err := x.readHeader(n, ddp.TaggedLen)
	if err != nil {
		return err
	}
	h, _, err := ddp.ParseTagged(seg.ddpHeader())
	if err != nil {
		return seg.newFault(err)
	}
	op, err := rdmap.CheckTagged(h)
	if err != nil {
		return seg.newFault(err)
	}
	seg.op, seg.last = op, h.Last
	if op == rdmap.OpReadResponse {
		return x.placeReadResponse(seg, h)
	}
	return x.placeWrite(seg, h)
}

// placeWrite places an RDMA Write segment. The upper layer is not informed (RFC 5040, Section 5.1).
func (x *receiver) placeWrite(seg *segment, h ddp.Tagged) error {
	size := seg.payloadLen()
	if size == 0 { // neither STag nor TO is checked: RFC 5041, Section 5.2
		return x.consumeTrailer(seg)
	}
	r, mem, err := x.c.pinSink(h, size)
	if err != nil {
		return seg.newFault(err)
	}
	rest := mem[size:]
	if !r.scratch || h.TO+uint64(size) < r.top {
		rest = nil
	}
	err = x.placeBatched(seg, mem[:size], rest, r)
	r.top = max(r.top, h.TO+uint64(size))
	if err == nil {
		r.written.addRange(byteRange{h.TO, h.TO + uint64(size)})
	}
	r.unpin()
	if err != nil {
		return err
	}
	return x.consumeTrailer(seg)
}

// pinSink returns the destination for a tagged segment with size bytes, up to the region's end, and
// pins the region. The checks follow the order in RFC 5041, Section 7.1.
func (c *Conn) pinSink(h ddp.Tagged, size int) (*region, []byte, error) {
	r := c.rnic.findRegion(h.STag)
	if r == nil {
		return nil, nil, ddp.ErrInvalidSTag
	}
	if r = r.viewFor(c); r == nil {
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

// A segment is one DDP segment from the peer. It keeps the headers, because a
// Terminate carries the faulty segment's headers.
type segment struct {
	ulpduLen  int  // header and payload, in bytes
	headerLen int  // DDP header, in bytes
	rdmapLen  int  // RDMAP header stored after it, in bytes
	last      bool // last segment in its message
	op        rdmap.Opcode
	placed    []byte // payload, in its destination
	headers   [ddp.UntaggedLen + rdmap.AtomicRequestLen]byte
}

// ddpHeader returns the DDP header.
func (s *segment) ddpHeader() []byte { return s.headers[:s.headerLen] }

// payloadLen returns the number of bytes after the DDP header.
func (s *segment) payloadLen() int { return s.ulpduLen - s.headerLen }

// rdmapHeader returns the RDMAP header, if it was stored.
func (s *segment) rdmapHeader() []byte { return s.headers[s.headerLen:][:s.rdmapLen] }

// readHeader copies the DDP header of an n-byte segment from the stream.
func (x *receiver) readHeader(n, size int) (*segment, error) {
	seg := &x.seg
	*seg = segment{ulpduLen: n, headerLen: size}
	if n < size {
		return nil, localFault(ddp.ErrShort)
	}
	if err := x.stageAtLeast(size); err != nil {
		return nil, err
	}
	copy(seg.headers[:], x.staging.B[x.r:][:size])
	x.r += size
	return seg, nil
}

// readShortMessage reads seg's payload, which must be a complete message of want bytes in one
// segment; the smallest MULPDU holds such a message.
func (x *receiver) readShortMessage(seg *segment, h ddp.Untagged, want int) error {
	if seg.payloadLen() != want || !h.Last || h.MO != 0 {
		return seg.newFault(rdmap.ErrLength)
	}
	if err := x.placeBytes(seg.headers[seg.headerLen:][:want]); err != nil {
		return err
	}
	seg.rdmapLen = want
	return nil
}
